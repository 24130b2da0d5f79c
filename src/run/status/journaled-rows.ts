import type { Storage } from "../../data/storage/storage.ts";
import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import {
  isCut,
  isSettled,
  type JournalLine,
  outcomeIn,
  rowsOfLine,
} from "../attempt/journal-line.ts";
import { addPaidTokens } from "../attempt/tally.ts";
import { journaledAttempts } from "../bill/journaled.ts";
import { GrowingLines } from "../directory/growing-lines.ts";
import { attemptPaths } from "../directory/layout.ts";
import type { Plan } from "../plan/plan.ts";

const paid = /^\{"index":\d+,"outcome":"(answered|filtered|failed|invalid)"/;

/** Facts that only journals have. */
export interface JournaledCounts {
  answered: number;
  filtered: number;
  failed: number;
  /** Answered and filtered rows with an answer that reached its token limit. */
  cut: number;
  /** Their requests. */
  responses: number;
  usage: Usage;
}

const none: JournaledCounts = {
  ...{ answered: 0, filtered: 0, failed: 0, cut: 0, responses: 0 },
  usage: noUsage,
};

const counted = ["answered", "filtered", "failed", "cut", "responses"] as const;

const settledIn = ({ answered, filtered, failed }: JournaledCounts) => answered + filtered + failed;

interface SeenJournal extends JournaledCounts {
  lines: GrowingLines;
}

/**
 * Counts answers of tasks without a commit, which are only in journals; another call reads only
 * what is new.
 */
export class JournaledRows {
  readonly #storage: Storage;
  #journals = new Map<string, SeenJournal>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** All rows with an outcome in such tasks, and their cost. */
  async count(plan: Plan, tasks: Iterable<number>): Promise<JournaledCounts> {
    const known = this.#journals;
    // Journals of tasks that were committed meanwhile are forgotten.
    this.#journals = new Map();
    const sum = { ...none };
    for (const task of tasks) {
      const attempts = await journaledAttempts({ storage: this.#storage, plan }, task);
      let most = none;
      for (const attempt of attempts.get(task) ?? []) {
        const { journal } = attemptPaths(task, plan, attempt);
        const seen = known.get(journal) ?? {
          lines: new GrowingLines(this.#storage, journal),
          ...none,
          usage: { ...noUsage },
        };
        this.#journals.set(journal, seen);
        for await (const line of seen.lines.fresh()) note(seen, line);
        // An attempt takes over the answers of earlier ones: they hold the same rows.
        if (settledIn(seen) >= settledIn(most)) most = seen;
      }
      for (const key of counted) sum[key] += most[key];
      sum.usage = addUsage(sum.usage, most.usage);
    }
    return sum;
  }
}

function note(seen: SeenJournal, line: string): void {
  if (!paid.test(line)) return;
  const parsed = JSON.parse(line) as JournalLine;
  if (parsed.outcome === "invalid") seen.usage = addUsage(seen.usage, parsed.usage);
  else if ("requests" in parsed) addPaidTokens(seen.usage, parsed.requests);
  if (isSettled(parsed)) {
    for (const row of rowsOfLine(parsed)) seen[outcomeIn(parsed, row)]++;
    seen.responses += parsed.requests.length;
    if (isCut(parsed.requests)) seen.cut++;
  } else if (parsed.outcome === "failed") seen.failed++;
}
