import type { Storage } from "../../data/storage/storage.ts";
import { addUsage, noUsage, type Usage } from "../../foundation/inference.ts";
import { parseJournalLine } from "../attempt/journal-line.ts";
import { journaledAttempts, KnownAnswers, OpenTaskTally } from "../bill/journaled.ts";
import { GrowingLines } from "../directory/growing-lines.ts";
import { attemptPaths } from "../directory/layout.ts";
import type { Plan } from "../plan/plan.ts";

/** Facts that only journals have. */
export interface JournaledCounts {
  answered: number;
  filtered: number;
  /** In the newest attempt: it sends rows again that failed in an earlier one. */
  failed: number;
  /** Answered and filtered rows with an answer that reached its token limit. */
  cut: number;
  /** Requests with an answer, also in rows with open requests. */
  responses: number;
  usage: Usage;
}

/** Adds up what attempts at one task have journaled so far. */
class SeenTask {
  readonly #journals: GrowingLines[];
  readonly #known: KnownAnswers;
  readonly #tally = new OpenTaskTally();
  #failed = 0;

  constructor(attempts: readonly string[], journals: GrowingLines[]) {
    this.#journals = journals;
    this.#known = new KnownAnswers(attempts);
  }

  async counts(): Promise<JournaledCounts> {
    for (const journal of this.#journals) {
      for await (const text of journal.fresh()) {
        const line = parseJournalLine(text, true);
        const fresh = line && this.#known.fresh({ line, text });
        if (!fresh) continue;
        this.#tally.add(fresh.line, fresh.isAgain);
        const isNewest = journal === this.#journals.at(-1);
        if (isNewest && line.outcome === "failed") this.#failed++;
      }
    }
    const { paid: usage, ...counts } = this.#tally.counts();
    return { ...counts, failed: this.#failed, usage };
  }
}

/**
 * Counts what tasks without a commit have only in journals, as the summary of a stopped run counts
 * it; another call reads only what is new.
 */
export class JournaledRows {
  readonly #storage: Storage;
  #tasks = new Map<string, SeenTask>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** All rows with an outcome in such tasks, and their cost. */
  async count(plan: Plan, tasks: Iterable<number>): Promise<JournaledCounts> {
    const storage = this.#storage;
    const known = this.#tasks;
    // Tasks that were committed meanwhile are forgotten.
    this.#tasks = new Map();
    const sum = { answered: 0, filtered: 0, failed: 0, cut: 0, responses: 0, usage: noUsage };
    for (const task of tasks) {
      const attempts = (await journaledAttempts({ storage, plan }, task)).get(task) ?? [];
      const paths = attempts.map((attempt) => attemptPaths(task, plan, attempt).journal);
      // With another attempt, all are read again: who took over which answer is seen only then.
      const name = paths.join();
      const journals = paths.map((path) => new GrowingLines(storage, path));
      const seen = known.get(name) ?? new SeenTask(attempts, journals);
      this.#tasks.set(name, seen);
      const counts = await seen.counts();
      for (const key of ["answered", "filtered", "failed", "cut", "responses"] as const) {
        sum[key] += counts[key];
      }
      sum.usage = addUsage(sum.usage, counts.usage);
    }
    return sum;
  }
}
