import type { Storage } from "../../data/storage/storage.ts";
import type { Commit } from "../attempt/commit.ts";
import type { Generation } from "../directory/layout.ts";
import { committedTasks, readCommits } from "../seal/commits.ts";

/** Counts the failed rows of a run as its commits come in, whoever makes them. */
export class FailedRows {
  readonly #storage: Storage;
  readonly #generation: Generation;
  readonly #counted = new Set<number>();
  readonly #onCommit: (commit: Commit) => void;

  /** @param onCommit told of each commit that is counted. */
  constructor(
    storage: Storage,
    generation: Generation,
    onCommit: (commit: Commit) => void = () => {},
  ) {
    this.#storage = storage;
    this.#generation = generation;
    this.#onCommit = onCommit;
  }

  /** Failed rows in commits that are new since the last call; without tasks of `except`. */
  async fresh(except: ReadonlySet<number> = new Set()): Promise<number> {
    const fresh: number[] = [];
    for (const task of await committedTasks(this.#storage, this.#generation)) {
      if (!this.#counted.has(task) && !except.has(task)) fresh.push(task);
    }
    let failed = 0;
    for await (const commit of readCommits(this.#storage, this.#generation, fresh)) {
      failed += commit.rows.failed;
      this.#counted.add(commit.task);
      this.#onCommit(commit);
    }
    return failed;
  }
}
