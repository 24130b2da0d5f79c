import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { indexSetOf } from "../../foundation/index-set.ts";
import { commitPath, commitPrefix, type RunGeneration, taskOfCommit } from "../directory/layout.ts";
import { readJson } from "../directory/records.ts";
import { runWords } from "../directory/run-storage.ts";
import { type Plan, readPlan } from "../plan/plan.ts";
import type { Commit } from "./commit.ts";

/** Numbers of the tasks with a commit in this generation: one listing, no reads. */
export async function committedTasks(storage: Storage, of: RunGeneration): Promise<Set<number>> {
  const tasks = new Set<number>();
  for await (const { path } of storage.list(commitPrefix)) {
    const task = taskOfCommit(path, of);
    if (task !== undefined) tasks.add(task);
  }
  return tasks;
}

export function openTasks({ tasks }: Plan, committed: ReadonlySet<number>): number[] {
  const all = Array.from({ length: tasks.count }, (_, task) => task);
  return all.filter((task) => !committed.has(task));
}

/** The same as an index set; empty if all are committed. */
export function openTaskSet(plan: Plan, committed: ReadonlySet<number>): string {
  return indexSetOf(openTasks(plan, committed));
}

/** @throws SluiceError `RUN_OPEN`, naming the tasks that are not committed. */
export async function assertAllCommitted(storage: Storage): Promise<void> {
  const plan = await readPlan(storage);
  const open = openTaskSet(plan, await committedTasks(storage, plan));
  if (open === "") return;
  throw new SluiceError(
    "RUN_OPEN",
    `tasks ${open} of 0-${plan.tasks.count - 1} are not committed`,
    {
      hint: `sluice worker ${runWords(storage)} --tasks ${open}`,
    },
  );
}

export interface StoredCommit {
  commit: Commit;
  bytes: Uint8Array;
}

/** Reads a commit and checks it against its name. */
export async function readCommit(
  storage: Storage,
  of: RunGeneration,
  task: number,
): Promise<Commit> {
  return (await readStored(storage, of, task)).commit;
}

async function readStored(
  storage: Storage,
  of: RunGeneration,
  task: number,
): Promise<StoredCommit> {
  const path = commitPath(task, of);
  let bytes: Uint8Array = Buffer.alloc(0);
  const read = async (file: string) => {
    bytes = await storage.read(file);
    return bytes;
  };
  const commit = await readJson<Commit>({ read }, path);
  if (!commit) throw new SluiceError("RUN_DAMAGED", "the commit is missing", { file: path });
  const { run, generation } = commit;
  if (commit.task !== task || run !== of.runId || generation !== of.generation) {
    throw new SluiceError("RUN_DAMAGED", "the commit is of another task", { file: path });
  }
  return { commit, bytes };
}

const readsAtOnce = 32;

/** Reads commits in the order of `tasks`, several at once. */
export async function* readCommits(
  storage: Storage,
  of: RunGeneration,
  tasks: Iterable<number>,
): AsyncGenerator<Commit> {
  for await (const { commit } of readStoredCommits(storage, of, tasks)) yield commit;
}

/** Like `readCommits`, with the bytes of each. */
export async function* readStoredCommits(
  storage: Storage,
  of: RunGeneration,
  tasks: Iterable<number>,
): AsyncGenerator<StoredCommit> {
  const pending: Promise<StoredCommit>[] = [];
  for (const task of tasks) {
    const reading = readStored(storage, of, task);
    // Awaited later, in order; until then a failure must not count as unhandled.
    reading.catch(() => {});
    pending.push(reading);
    if (pending.length >= readsAtOnce) yield await pending.shift()!;
  }
  for (const commit of pending) yield await commit;
}

/** Counts the failed rows of a run as its commits come in, whoever makes them. */
export class FailedRows {
  readonly #storage: Storage;
  readonly #generation: RunGeneration;
  readonly #counted = new Set<number>();
  readonly #onCommit: (commit: Commit) => void;

  /** @param onCommit told of each commit that is counted. */
  constructor(
    storage: Storage,
    generation: RunGeneration,
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
