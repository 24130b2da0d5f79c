import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import { sortableId } from "../../foundation/ids.ts";
import { eachIndex, formatIndexSet, parseIndexSet, rangesOf } from "../../foundation/index-set.ts";
import { assertAskable } from "../askable.ts";
import type { Commit } from "../attempt/commit.ts";
import type { DeadLetter } from "../attempt/write-part.ts";
import type { RunDependencies } from "../dependencies.ts";
import type { JobSpec } from "../job/schema.ts";
import { commitPath, planPathOf } from "../layout.ts";
import { readLines } from "../lines.ts";
import { type Plan, planBytes, readPlan, storeTasks, type Task, TaskTable } from "../plan.ts";
import { createOnce, readJson } from "../records.ts";
import { type Manifest, type ManifestTask, readManifest } from "../seal/manifest.ts";

/** Which rows of a sealed run are asked again. */
export type RetryWhere = "failed" | "finish_reason=length";

/** The rows to ask again, found in a sealed run. */
export interface RetryPlan {
  plan: Plan;
  /** The seal that the retry builds on. */
  base: Manifest;
}

/**
 * Plans the next generation of a sealed run: the chosen rows, with the job as it is to be now.
 * A retry that was planned before and is not sealed yet goes on, if it asks the same.
 *
 * @returns undefined when there is no such row.
 * @throws SluiceError `NOT_A_RUN`, `USAGE` when the run is not sealed, `RUN_DIFFERS` when a retry
 *   with other parameters is under way.
 */
export async function planRetry(
  storage: Storage,
  dependencies: RunDependencies,
  where: RetryWhere,
  change: (stored: JobSpec) => Promise<JobSpec>,
): Promise<RetryPlan | undefined> {
  const first = await readPlan(storage);
  const base = await readManifest(storage);
  if (!base) {
    throw new SluiceError("USAGE", "the run is not sealed yet", {
      hint: "run the job to its end first: the same sluice run command goes on with it",
    });
  }
  const generation = base.generation + 1;
  const job = await change((await readPlan(storage, base.generation)).job);
  assertAskable(job);
  const begun = await readJson<Plan>(storage, planPathOf(generation));
  if (begun) return { plan: asBegun(begun, job), base };
  const { clock, random } = dependencies;
  const uniqueId = sortableId(clock, random);
  const tasks = await storeTasks(
    storage,
    generation,
    uniqueId,
    chosenTasks(storage, first, base, where),
  );
  if (tasks.rows === 0) return undefined;
  const plan: Plan = {
    ...first,
    generation,
    software: dependencies.software,
    createdAt: new Date(clock.now()).toISOString(),
    job,
    seed: job.generation.seed ?? first.seed,
    tasks: { count: tasks.count, file: tasks.file, index: tasks.index },
    rows: tasks.rows,
  };
  planBytes(plan);
  const { record } = await createOnce(storage, planPathOf(generation), plan, digestOf);
  return { plan: asBegun(record, job), base };
}

function asBegun(begun: Plan, job: JobSpec): Plan {
  if (digestOf(begun.job) === digestOf(job)) return begun;
  throw new SluiceError("RUN_DIFFERS", "a retry with other parameters is not finished", {
    hint: "run that retry command again; afterwards retry with the new parameters",
  });
}

async function* chosenTasks(
  storage: Storage,
  first: Plan,
  base: Manifest,
  where: RetryWhere,
): AsyncGenerator<Task> {
  const table = new TaskTable(storage, first);
  let number = 0;
  try {
    for (const entry of base.tasks) {
      const rows =
        where === "failed"
          ? await failedRows(storage, entry)
          : await cutRows(storage, base, entry.task);
      if (rows.length === 0) continue;
      const only = formatIndexSet(rangesOf(rows));
      const { of: _of, ...task } = await table.task(entry.task);
      yield { ...task, of: entry.task, task: number++, only, onlyRows: rows.length };
    }
  } finally {
    await table.close();
  }
}

/** Rows of a task whose dead letters stand now. */
export async function failedRows(storage: Storage, entry: ManifestTask): Promise<number[]> {
  if (!entry.deadLetters) return [];
  const rows: number[] = [];
  for await (const line of readLines(storage, entry.deadLetters.path)) {
    rows.push((JSON.parse(line) as DeadLetter).index);
  }
  return rows;
}

/** Rows whose answer was cut by the limit on tokens, as the first generation's attempt noted. */
async function cutRows(storage: Storage, base: Manifest, task: number): Promise<number[]> {
  const { runId } = base;
  const commit = await readJson<Commit>(storage, commitPath(task, { runId, generation: 1 }));
  if (!commit?.cutRows) return [];
  if (!(await storage.stat(commit.cutRows.path))) {
    throw new SluiceError("UNSUPPORTED", "sluice clean removed what says which answers were cut");
  }
  const text = Buffer.from(await storage.read(commit.cutRows.path)).toString();
  return [...eachIndex(parseIndexSet(text))];
}
