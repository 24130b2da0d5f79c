import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import { sortableId } from "../../foundation/ids.ts";
import { formatIndexSet, rangesOf } from "../../foundation/index-set.ts";
import { assertAskable } from "../askable.ts";
import type { RunDependencies } from "../dependencies.ts";
import { effectiveJob } from "../effective-job.ts";
import { identifiedJob } from "../identified-job.ts";
import { differingAnswers } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { planPathOf } from "../layout.ts";
import { type Plan, planBytes, readPlan, storeTasks, type Task, TaskTable } from "../plan.ts";
import { createOnce, readJson } from "../records.ts";
import { type Manifest, readManifest } from "../seal/manifest.ts";
import { cutRows, deadLetterRows } from "./cut-rows.ts";

/** Which rows of a sealed run are asked again. */
export type RetryWhere = "failed" | "finish_reason=length";

/** The rows to ask again, found in a sealed run. */
export interface RetryPlan {
  plan: Plan;
  /** The seal that the retry builds on. */
  base: Manifest;
}

/**
 * The seal that a retry would build on, and its job.
 *
 * @throws SluiceError `NOT_A_RUN`, `RUN_OPEN` when the run is not sealed.
 */
export async function retriedJob(
  storage: Storage,
  change: (stored: JobSpec) => Promise<JobSpec>,
): Promise<{ base: Manifest; job: JobSpec }> {
  await readPlan(storage);
  const base = await readManifest(storage);
  if (!base) {
    throw new SluiceError("RUN_OPEN", "only rows of a sealed run are asked again", {
      hint: "run the job to its end first: the same sluice run command goes on with it",
    });
  }
  const job = await identifiedJob(await change((await readPlan(storage, base.generation)).job));
  assertAskable(job);
  assertLoadable(job);
  assertSameForm((await readPlan(storage)).job, job);
  return { base, job };
}

/** What a program had as functions is gone with it: only modules can be loaded again. */
function assertLoadable({ model }: JobSpec): void {
  if (model.engine !== "pipeline") return;
  const at = model.stages.findIndex(({ closure }) => closure !== undefined);
  if (at < 0) return;
  throw new SluiceError("UNSUPPORTED", `stage ${at + 1} is a function of the program of this run`, {
    hint:
      "read its failed rows (sluice results --failed), and run those as a dataset of their own; " +
      "of runs whose stages are modules, failed rows are asked again",
  });
}

/** Results of a retry go among those that stand: both must have one form. */
function assertSameForm({ output: stored }: JobSpec, { output }: JobSpec): void {
  for (const key of ["format", "errorFile"] as const) {
    if (stored[key] === output[key]) continue;
    const detail = `output.${key} cannot be changed by a retry`;
    throw new SluiceError("RUN_DIFFERS", detail, { hint: "start a new run with another output" });
  }
}

/**
 * Plans the next generation of a sealed run: the chosen rows, with the job as it is to be now.
 * A retry that was planned before and is not sealed yet goes on, if it asks the same.
 *
 * @returns undefined when there is no such row.
 * @throws SluiceError what `retriedJob` throws, and `RUN_DIFFERS` when a retry of other rows or
 *   with other parameters is under way.
 */
export async function planRetry(
  storage: Storage,
  dependencies: RunDependencies,
  where: RetryWhere,
  change: (stored: JobSpec) => Promise<JobSpec>,
): Promise<RetryPlan | undefined> {
  const { base, job } = await retriedJob(storage, change);
  const first = await readPlan(storage);
  const generation = base.generation + 1;
  const begun = await readJson<Plan>(storage, planPathOf(generation));
  if (begun) return { plan: asBegun(begun, job, where), base };
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
    where,
    seed: job.generation.seed ?? first.seed,
    tasks: { count: tasks.count, file: tasks.file, index: tasks.index },
    rows: tasks.rows,
  };
  planBytes(plan);
  const { record } = await createOnce(storage, planPathOf(generation), plan, digestOf);
  return { plan: asBegun(record, job, where), base };
}

function asBegun(begun: Plan, job: JobSpec, where: RetryWhere): Plan {
  if (begun.where !== undefined && begun.where !== where) {
    throw new SluiceError("RUN_DIFFERS", `a retry of other rows (${begun.where}) is not finished`, {
      hint: `finish it with --where ${begun.where}; afterwards retry the rows that are ${where}`,
    });
  }
  const differing = differingAnswers(begun.job, job);
  if (differing.length === 0) return { ...begun, job: effectiveJob(begun, job) };
  const detail = `a retry with another ${differing.join(", ")} is not finished`;
  throw new SluiceError("RUN_DIFFERS", detail, {
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
          ? await deadLetterRows(storage, entry.deadLetters)
          : await cutRows(storage, base, entry);
      if (rows.length === 0) continue;
      const only = formatIndexSet(rangesOf(rows));
      const { of: _of, ...task } = await table.task(entry.task);
      yield { ...task, of: entry.task, task: number++, only, onlyRows: rows.length };
    }
  } finally {
    await table.close();
  }
}
