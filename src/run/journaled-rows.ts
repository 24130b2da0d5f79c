import type { Storage } from "../data/storage/storage.ts";
import { rowsOfLine } from "./attempt/journal-line.ts";
import { journaledAttempts } from "./bill/journaled.ts";
import { GrowingLines } from "./growing-lines.ts";
import { attemptPaths } from "./layout.ts";
import type { Plan } from "./plan.ts";

const answered = /^\{"index":\d+,"outcome":"(?:answered|filtered)"(?:,"others":"([^"]*)")?/;

/**
 * Counts answers of tasks without a commit, which stand in journals alone; asked again, it reads
 * only what is new.
 */
export class JournaledRows {
  readonly #storage: Storage;
  #journals = new Map<string, { lines: GrowingLines; rows: number }>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** Answered rows of such tasks together. */
  async count(plan: Plan, tasks: Iterable<number>): Promise<number> {
    const known = this.#journals;
    // Journals of tasks that were committed meanwhile are forgotten.
    this.#journals = new Map();
    let sum = 0;
    for (const task of tasks) {
      const attempts = await journaledAttempts({ storage: this.#storage, plan }, task);
      let most = 0;
      for (const attempt of attempts.get(task) ?? []) {
        const { journal } = attemptPaths(task, plan, attempt);
        const seen = known.get(journal) ?? {
          lines: new GrowingLines(this.#storage, journal),
          rows: 0,
        };
        this.#journals.set(journal, seen);
        for await (const line of seen.lines.fresh()) seen.rows += rowsIn(line);
        // An attempt takes over what those before it answered: they hold the same rows.
        most = Math.max(most, seen.rows);
      }
      sum += most;
    }
    return sum;
  }
}

/** Rows that a line of a journal settles. */
function rowsIn(line: string): number {
  const found = answered.exec(line);
  if (found === null) return 0;
  return found[1] === undefined ? 1 : rowsOfLine({ index: 0, others: found[1] }).length;
}
