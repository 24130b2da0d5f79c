import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import { sortableId } from "../../foundation/ids.ts";
import { indexSetOf } from "../../foundation/index-set.ts";
import { randomInteger } from "../../foundation/random.ts";
import { callJobs } from "../coordinate/coordinator.ts";
import type { RunDependencies } from "../dependencies.ts";
import { planPathOf } from "../directory/layout.ts";
import { createOnce, readJson } from "../directory/records.ts";
import { runWords } from "../directory/run-storage.ts";
import { differingAnswers, differingKeys } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { storedJob } from "../job/worker-variables.ts";
import { assertAskable } from "../plan/job-prompts.ts";
import { identifiedJob } from "../plan/open-run.ts";
import {
  assertPlanFits,
  effectiveJob,
  type Plan,
  readPlan,
  type StoredTasks,
  standingPlan,
  storeTasks,
  type Task,
  TaskTable,
} from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import type { Manifest } from "../seal/manifest.ts";
import { readManifest, readSeals } from "../seal/seals.ts";
import type { RunEvent } from "../status/events.ts";
import { abandon, answeredNothing } from "./abandon-retry.ts";
import { cutRows, type FailedRow, failedRowsOf, requestsOfRows } from "./cut-rows.ts";

/** The rows of a sealed run that are sent again. */
export type RetryWhere = "failed" | "finish_reason=length";

/** A planned retry, and what it builds on. */
export interface RetryPlan {
  plan: Plan;
  /** The seal that the retry builds on. */
  base: Manifest;
}

export interface RowsOfRetry {
  /** `appended`: only rows that were appended to the run's input since. */
  where: RetryWhere | "appended";
  /** Where rows are read again: the input itself, or a file of corrected rows. */
  reread?: "input" | { file: string };
  /** Only a retry that is begun already: if another process has finished it, none is begun. */
  unfinished?: boolean | undefined;
}

export interface RetryRequest extends RowsOfRetry {
  job: JobSpec;
}

/** Additional parts of a retry that reads rows again; `storeTasks` belongs to its plan. */
export interface RetryTasks {
  tasks: AsyncIterable<Task> | Iterable<Task>;
  /** The plan's content besides its tasks: all tasks of the run in their present state. */
  facts?: Partial<Pick<Plan, "whole" | "input" | "outputs" | "columns">>;
}

/** How the tasks of a retry are found; default: rows at their planned places. */
export type FindTasks = (
  run: Plan,
  base: Manifest,
  generation: number,
  uniqueId: string,
) => Promise<RetryTasks> | RetryTasks;

/**
 * The job of a plan with the time-outs, endpoints and limits of the last call that asked the same.
 * A budget holds for all calls of a run, so it is that of the last one in any case.
 */
export async function lastJob(storage: Storage, plan: Plan): Promise<JobSpec> {
  let last: JobSpec | undefined;
  for await (const job of callJobs(storage)) {
    last ??= job;
    if (differingAnswers(job, plan.job).length > 0) continue;
    return effectiveJob(plan, { ...job, budget: last.budget });
  }
  return { ...plan.job, budget: (last ?? plan.job).budget };
}

/**
 * The job of a retry of a run as it is sealed.
 *
 * @throws SluiceError `NOT_A_RUN`, `RUN_OPEN` if the run is not sealed, `RUN_DIFFERS` if a retry
 *   cannot make the change.
 */
export async function retriedJob(
  storage: Storage,
  change: (stored: JobSpec) => Promise<JobSpec>,
): Promise<JobSpec> {
  const { job: first } = await readPlan(storage);
  const base = await readManifest(storage);
  if (!base) {
    throw new SluiceError("RUN_OPEN", "only a sealed run has rows to retry", {
      hint: `finish the run first: sluice resume ${runWords(storage)}`,
    });
  }
  const last = await lastJob(storage, await readPlan(storage, base.generation));
  const job = await identifiedJob(await change(last));
  assertAskable(job);
  assertLoadable(job);
  assertRetriable(first, job);
  return job;
}

const ownDataset =
  "read its failed rows (sluice results --failed), and run those as a dataset of their own; " +
  "of runs whose stages are modules, failed rows are processed again";

/** Functions of a program end with it: only modules can be loaded again. */
export function assertLoadable({ model }: JobSpec, hint = ownDataset): void {
  if (model.engine !== "pipeline") return;
  const at = model.stages.findIndex(({ closure }) => closure !== undefined);
  if (at < 0) return;
  const detail = `stage ${at + 1} is a function of the program of this run`;
  throw new SluiceError("UNSUPPORTED", detail, { hint });
}

/** Keys that decide which rows there are, and the form of their results. */
const fixedKeys =
  /^((dataset|limit|sample|output)(\.|$)|input\.\d+\.(?!servedModelName|maxLineBytes|schema))/;

/** Results of a retry join the present ones: both must be of the same rows, in one form. */
function assertRetriable(first: JobSpec, job: JobSpec): void {
  const fixed = [
    ...differingKeys(first, job, ["layout"]),
    ...differingKeys(first, job, ["answers"]).filter((key) => fixedKeys.test(key)),
    ...namesDiffer(first, job),
  ];
  if (fixed.length === 0) return;
  throw new SluiceError("JOB_INVALID", `a retry cannot change ${fixed.join(", ")}`, {
    hint: "start a new run with another output",
  });
}

/** Answers of other prompts would need other columns. */
function namesDiffer(first: JobSpec, job: JobSpec): string[] {
  const namesOf = ({ prompts }: JobSpec) => Object.keys(prompts ?? {}).sort();
  return namesOf(first).join() === namesOf(job).join() ? [] : ["prompts"];
}

/**
 * Plans the next generation of a sealed run: the chosen rows, with the present job. An unsealed
 * retry continues if it is the same one; a retry without answers is replaced.
 *
 * @param context that of the process that leads the run.
 * @returns undefined if there are no such rows.
 * @throws SluiceError `RUN_DIFFERS` if another retry is unfinished.
 */
export async function planRetry(
  context: Pick<RunContext, "storage" | "outside" | "openStorage" | "worker">,
  dependencies: RunDependencies,
  request: RetryRequest,
  onEvent: (event: RunEvent) => void,
  findTasks: FindTasks = (run, base) => ({
    tasks: chosenTasks(context.storage, run, base, request.where as RetryWhere),
  }),
): Promise<RetryPlan | undefined> {
  const { storage } = context;
  const { job, where } = request;
  const base = (await readManifest(storage))!;
  const first = await readPlan(storage);
  const generation = (await readSeals(storage, first)).last + 1;
  const begun = await readJson<Plan>(storage, planPathOf(generation));
  if (begun) {
    const differing = differences(begun, request);
    if (differing.length === 0) return { plan: { ...begun, job: effectiveJob(begun, job) }, base };
    await makeWay(context, begun, differing, onEvent);
    return await planRetry(context, dependencies, request, onEvent, findTasks);
  }
  const { clock, random } = dependencies;
  const uniqueId = sortableId(clock, random);
  const run = await standingPlan(storage, base.standing);
  const { tasks: chosen, facts } = await findTasks(run, base, generation, uniqueId);
  const tasks = await storeTasks(storage, generation, uniqueId, chosen);
  if (tasks.rows === 0) return undefined;
  const { whole: _, ...planned } = run;
  const plan: Plan = {
    ...planned,
    generation,
    software: dependencies.software,
    createdAt: new Date(clock.now()).toISOString(),
    job: storedJob(job),
    ...{ where, reread: request.reread },
    // With the previous seed, a local engine would fail with the same answer again.
    seed: job.generation.seed ?? randomInteger(random, 2 ** 31),
    tasks: stored(tasks),
    rows: tasks.rows,
    ...facts,
  };
  assertPlanFits(plan);
  const { record } = await createOnce(storage, planPathOf(generation), plan, digestOf);
  const differing = differences(record, request);
  if (differing.length > 0) throw unfinished(storage, record, differing);
  return { plan: { ...record, job: effectiveJob(record, job) }, base };
}

function stored({ count, file, index }: StoredTasks): Plan["tasks"] {
  return { count, file, index };
}

function differences(begun: Plan, { job, where, reread }: RetryRequest): string[] {
  const others = differingAnswers(begun.job, job);
  if (begun.where !== undefined && begun.where !== where) others.unshift("which rows");
  const isSameSource = JSON.stringify(begun.reread) === JSON.stringify(reread);
  if (!isSameSource) others.unshift("where rows are read");
  return others;
}

/** A retry without answers, such as one with a mistyped model, must not stand in the way. */
async function makeWay(
  context: Pick<RunContext, "storage" | "outside" | "openStorage" | "worker">,
  begun: Plan,
  differing: readonly string[],
  onEvent: (event: RunEvent) => void,
): Promise<void> {
  const { storage } = context;
  if (!(await answeredNothing(storage, begun))) throw unfinished(storage, begun, differing);
  await abandon({ ...context, plan: begun });
  const message =
    "the retry that was begun is dropped: it answered nothing; " +
    `this one differs in ${differing.join(", ")}`;
  onEvent({ type: "notice", message });
}

function unfinished(storage: Storage, begun: Plan, differing: readonly string[]): SluiceError {
  const detail = `a retry is begun and not finished; this one differs in ${differing.join(", ")}`;
  const run = runWords(storage);
  return new SluiceError("RUN_DIFFERS", detail, {
    hint:
      `finish it with sluice resume ${run}, or drop it with sluice retry ${run} --abandon ` +
      `(${begun.rows} rows)`,
  });
}

/** The chosen rows as tasks that read them from the run's places. */
export async function* chosenTasks(
  storage: Storage,
  run: Plan,
  base: Manifest,
  where: RetryWhere,
): AsyncGenerator<Task> {
  const table = new TaskTable(storage, run);
  let number = 0;
  try {
    for (const entry of base.tasks) {
      const failed = where === "failed" ? await failedRowsOf(storage, entry) : undefined;
      const rows = failed ?? (await cutRows(storage, entry));
      if (rows.length === 0) continue;
      yield retryTask(await table.task(entry.task), entry.task, number++, rows);
    }
  } finally {
    await table.close();
  }
}

/** A task of a retry: rows of a task of the run that failed, or that were answered. */
export function retryTask(
  task: Task,
  of: number,
  number: number,
  rows: readonly FailedRow[] | readonly number[],
): Task {
  const { of: _of, ...planned } = task;
  const failed = rows.filter((row) => typeof row !== "number");
  const indexes = rows.map((row) => (typeof row === "number" ? row : row.index));
  const replaces = failed.length > 0 ? requestsOfRows(failed) : "same";
  const only = indexSetOf(indexes);
  return { ...planned, of, task: number, only, onlyRows: rows.length, replaces };
}
