import type { InputFile } from "../../data/inputs.ts";
import type { OpenFile } from "../../data/open-files.ts";
import type { InputRow } from "../../data/row.ts";
import { readRows, scanSlices } from "../../data/slices.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { describeEngine } from "../../engines/registry.ts";
import { asSluiceError, SluiceError, wordedError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import { runIdAt, sortableId } from "../../foundation/ids.ts";
import { limits } from "../../foundation/limits.ts";
import { randomInteger } from "../../foundation/random.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RunDependencies } from "../dependencies.ts";
import { planPath, stdinPrefix } from "../directory/layout.ts";
import { locateRun, type RunLocation } from "../directory/locate.ts";
import { createOnce, readJson } from "../directory/records.ts";
import { type RunStorage, runStorage, runWords } from "../directory/run-storage.ts";
import { assertStagesAskable, firstStagePrompts } from "../execute/row-model.ts";
import { differingAnswers } from "../job/kinds.ts";
import { suffixed } from "../job/paths.ts";
import type { JobSpec } from "../job/schema.ts";
import { storedJob } from "../job/worker-variables.ts";
import { isBatchInput } from "../openai-batch/batch-lines.ts";
import { errorFileOf } from "../openai-batch/error-file.ts";
import { planOutputs } from "../output/plan-outputs.ts";
import { plannedColumns } from "../output/planned-columns.ts";
import { assertUnchanged } from "../retry/rescan.ts";
import { type RunContext, runContext } from "../run-context.ts";
import { readSeals } from "../seal/seals.ts";
import type { RunEvent } from "../status/events.ts";
import { FitWatch } from "./fit-watch.ts";
import { reachOf } from "./job-files.ts";
import { assertAskable, promptSetOf } from "./job-prompts.ts";
import { assertPlanFits, effectiveJob, type Plan, readOptionsOf, standingPlan } from "./plan.ts";
import { assertBegunSo, probeStore } from "./probe.ts";
import { finishReplacement, replaceRun, standingOutputs } from "./replace-run.ts";
import { assertSameInput, findInput, plannedOrder, scanInput, taskSize } from "./scan-input.ts";
import { cameToNothing, holdsOutcomes, runDiffers } from "./standing-run.ts";

/** Before the rows are counted, their number is guessed by this size. */
const guessedRowBytes = 100;

export interface OpenRunOptions {
  overwrite: boolean;
  /** Writes beside the present run, if it is another one. */
  fork: boolean;
  workersFor(job: JobSpec, rows: number): number | Promise<number>;
  onEvent(event: RunEvent): void;
  /** The input of a sealed run is not compared with its plan: it may have grown, or be gone. */
  skipsInputCheck?: boolean;
  /** Called before a new run is planned; throws to prevent it. */
  beforePlan?(job: JobSpec): Promise<void>;
}

/** A run, found or newly planned. */
export interface OpenedRun {
  context: RunContext;
  location: RunLocation;
  /** The job to carry out: answers and layout as planned, operation as requested now. */
  job: JobSpec;
}

/**
 * Finds the run in the job's output, or plans a new one.
 *
 * @throws SluiceError `RUN_DIFFERS`, `OUTPUT_OCCUPIED`, `INPUT_CHANGED`, and errors of planning.
 */
export async function openOrPlan(
  given: JobSpec,
  dependencies: RunDependencies,
  options: OpenRunOptions,
): Promise<OpenedRun> {
  assertAskable(given);
  assertStagesAskable(given);
  const job = await identifiedJob(given);
  const worker = sortableId(dependencies.clock, dependencies.random);
  for (let copy = 1; ; copy++) {
    const wanted = copy === 1 ? job : { ...job, output: forkedOutput(job.output, copy) };
    const location = locateRun(wanted.output.path);
    let storage = runStorage(dependencies.openStorage(location.directory));
    let plan = await atOutput(wanted, storage, () => readJson<Plan>(storage, planPath));
    // Files of a run that it replaced would be taken for its own, or for the user's.
    if (plan) await finishReplacement(dependencies, location, storage, wanted);
    const replaces = plan && (await isReplaced(wanted, plan, dependencies, options, storage));
    if (!plan || replaces) {
      await options.beforePlan?.(wanted);
      const place: Place = { location, storage, standing: plan };
      const planned = await atOutput(wanted, storage, () =>
        planInPlace(wanted, place, dependencies, options),
      );
      ({ plan, storage } = planned);
      // Another process planned at the same moment: its plan stands, if it is the same job.
      const isSame =
        planned.isOurs || (await matches(wanted, plan, dependencies, options, storage));
      if (!isSame) continue;
      await finishReplacement(dependencies, location, storage);
    } else {
      assertBegunSo(storage, plan.job);
      if (!(await matches(wanted, plan, dependencies, options, storage))) continue;
    }
    const effective = effectiveJob(plan, wanted);
    const present = { ...plan, job: effective };
    const context = runContext(location, present, dependencies, worker, storage);
    return { context, location, job: effective };
  }
}

/** Until a run exists, errors of the store are reported as faults of the job's output. */
async function atOutput<T>(
  { output }: JobSpec,
  { location }: Storage,
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action();
  } catch (thrown) {
    const error = asSluiceError(thrown);
    const { file } = error.place;
    const isUnsuitable = error.code === "STORE_UNSUITABLE";
    const isOfOutput = isUnsuitable || ["NOT_FOUND", "STORE_FAILED"].includes(error.code);
    if (!isOfOutput || !file?.startsWith(`${location}/`)) throw thrown;
    const said = error.cause instanceof Error ? error.cause.message : error.message;
    // A fault with its own hint, such as for credentials, would be the same in another folder.
    const { ownHint } = error;
    const reason = ownHint ? said : said.split(", ")[0];
    const code = isUnsuitable ? error.code : "STORE_FAILED";
    throw new SluiceError(code, `no run can be kept there: ${reason}`, {
      file: output.path,
      field: "output.path",
      hint: ownHint ?? "name another --output: a folder that is there, or that can be made",
      cause: error,
    });
  }
}

/**
 * With `--overwrite`, or if a run of another job came to nothing, such as with a mistyped model.
 */
async function isReplaced(
  job: JobSpec,
  plan: Plan,
  dependencies: RunDependencies,
  { overwrite, fork, onEvent }: OpenRunOptions,
  storage: Storage,
): Promise<boolean> {
  if (overwrite || fork) return overwrite;
  const differing = differingAnswers(plan.job, job);
  if (differing.length === 0 || !(await cameToNothing(storage, dependencies))) return false;
  const keys = namedFor(job, differing);
  const message = `run ${plan.runId} is replaced: it answered nothing, and this job has other ${keys}`;
  onEvent({ type: "notice", message });
  return true;
}

// Another process may have continued the run before this one led it.
async function assertNoOutcome(storage: Storage): Promise<void> {
  if (!(await holdsOutcomes(storage))) return;
  throw new SluiceError("RUN_DIFFERS", "another process resumed it meanwhile", {
    file: storage.location,
  });
}

function forkedOutput(output: JobSpec["output"], copy: number): JobSpec["output"] {
  const { path, errorFile } = output;
  return {
    ...output,
    path: forkedPath(path, copy),
    ...(errorFile && { errorFile: forkedPath(errorFile, copy) }),
  };
}

function forkedPath(path: string, copy: number): string {
  const bare = path.replace(/(?<=.)\/+$/, "");
  return suffixed(bare, `-${copy}`);
}

async function matches(
  job: JobSpec,
  plan: Plan,
  dependencies: RunDependencies,
  options: OpenRunOptions,
  storage: Storage,
): Promise<boolean> {
  const differing = differingAnswers(plan.job, job);
  if (differing.length > 0) {
    if (options.fork) return false;
    throw await runDiffers(storage, plan, namedFor(job, differing));
  }
  if (options.skipsInputCheck) return true;
  const { sealed } = await readSeals(storage, plan);
  const run = await standingPlan(storage, sealed?.standing);
  const scan = {
    storage,
    job,
    seed: plan.seed,
    workers: 1,
    uniqueId: sortableId(dependencies.clock, dependencies.random),
    openFile: dependencies.inputs.within(reachOf(job)).open,
    onEvent: options.onEvent,
  };
  try {
    const found = await findInput(job, dependencies.inputs);
    // Appended rows were cut separately.
    if (run.whole) await assertUnchanged(storage, run, found, scan);
    else await assertSameInput(run, found, scan);
    return true;
  } catch (error) {
    if (asSluiceError(error).code !== "INPUT_CHANGED") throw error;
    if (options.fork) return false;
    throw sealed ? ofSealedRun(error as SluiceError, storage) : error;
  }
}

/** A sealed run can take over changes of its input. */
function ofSealedRun({ message, place, cause }: SluiceError, storage: Storage): SluiceError {
  const run = runWords(storage);
  const hint =
    "rows were appended: add --extend; failed rows were corrected: " +
    `sluice retry ${run} --reread; else restore the input, or start a new run with ` +
    "--fork or --overwrite";
  return wordedError("INPUT_CHANGED", message, { ...place, cause, hint });
}

/** Keys as the author knows them: the file of spooled standard input is not one of them. */
function namedFor(job: JobSpec, keys: readonly string[]): string {
  const isSpooled = (path: string) => path.includes(`/${stdinPrefix}`);
  const spooled = job.input.map(({ path }, at) => (isSpooled(path) ? `input.${at}.path` : ""));
  return keys.map((key) => (spooled.includes(key) ? "standard input" : key)).join(", ");
}

/** @throws SluiceError `OUTPUT_OCCUPIED` if the place of a new run is not empty. */
export async function assertFree(
  storage: Storage,
  outside: Storage,
  location: RunLocation,
  errorFile: string | null = null,
): Promise<void> {
  for (const name of [location.mergedFile, errorFile]) await assertNoFile(outside, location, name);
  for await (const { path } of storage.list("")) {
    // Leftovers of an interrupted planner, or of spooled standard input, are ours.
    if (path.startsWith("_sluice/")) continue;
    throw new SluiceError("OUTPUT_OCCUPIED", `it holds ${path}`, { file: location.directory });
  }
}

async function assertNoFile(outside: Storage, location: RunLocation, name: string | null) {
  if (name === null || !(await outside.stat(name))) return;
  const file = `${location.outside}/${name}`;
  throw new SluiceError("OUTPUT_OCCUPIED", "the file exists", { file });
}

interface Place {
  location: RunLocation;
  storage: RunStorage;
  standing: Plan | undefined;
  /** Called right before the plan appears. */
  assertReplaces?(): Promise<void>;
}

async function planInPlace(
  job: JobSpec,
  place: Place,
  dependencies: RunDependencies,
  options: OpenRunOptions,
): Promise<{ plan: Plan; isOurs: boolean; storage: RunStorage }> {
  const { location, storage, standing } = place;
  const outside = dependencies.openStorage(location.outside);
  const errorFile = errorFileOf(job, location);
  if (!standing) {
    await assertFree(storage, outside, location, errorFile);
    return { ...(await planRun(job, place, dependencies, options)), storage };
  }
  // A mistyped path must not cost existing results.
  await findInput(job, dependencies.inputs);
  if (errorFile !== standing.errorFile) await assertNoFile(outside, location, errorFile);
  return await replaceRun(dependencies, location, storage, standing, {
    ...(!options.overwrite && { assertRemovable: () => assertNoOutcome(storage) }),
    planIn: (next, assertReplaces) =>
      planRun(job, { ...place, storage: next, assertReplaces }, dependencies, options),
  });
}

/** The run's id: its start, with the run's number if others had the directory before. */
async function newRunId(nowMs: number, storage: RunStorage): Promise<string> {
  const number = await storage.number;
  return number === 1 ? runIdAt(nowMs) : `${runIdAt(nowMs)}-${number}`;
}

async function planRun(
  job: JobSpec,
  { location, storage, standing, assertReplaces }: Place,
  dependencies: RunDependencies,
  options: OpenRunOptions,
): Promise<{ plan: Plan; isOurs: boolean }> {
  const { clock, random, software, inputs } = dependencies;
  const uniqueId = sortableId(clock, random);
  const found = await findInput(job, inputs);
  const { openFile } = found;
  await assertPromptsFit(found.files, job, openFile);
  // It waits for the disk, the scan for the processor. What is refused before leaves nothing.
  const probing = probeStore(storage, uniqueId);
  probing.catch(() => {});
  const outside = dependencies.openStorage(location.outside);
  const { openStorage } = dependencies;
  const place = { location, storage, outside, openStorage };
  const made =
    standing && (await standingOutputs(storage.of((await storage.number) - 1), standing));
  const outputs = await planOutputs(found.files, {
    ...{ job, ...place, openFile, uniqueId },
    ...(made && { standing: made }),
  });
  const seed = job.generation.seed ?? randomInteger(random, 2 ** 31);
  const errorFile = errorFileOf(job, location);
  const workers = await options.workersFor(job, Math.ceil(found.bytes / guessedRowBytes));
  const { onEvent } = options;
  const scan = { storage, job, seed, workers, uniqueId, openFile, onEvent };
  const order = await plannedOrder(found, job, openFile);
  const { rowsPerTask, longerTasks } = await taskSize(found, job, workers, order, openFile);
  const { tasks, input } = await scanInput(found, scan, rowsPerTask, longerTasks);
  const columns = await plannedColumns(found.files, job, openFile);
  await probing;
  const plan: Plan = {
    format: 1,
    runId: await newRunId(clock.now(), storage),
    generation: 1,
    software,
    createdAt: new Date(clock.now()).toISOString(),
    job: storedJob(job),
    seed,
    tasks: { count: tasks.count, file: tasks.file, index: tasks.index },
    rows: tasks.rows,
    input,
    order,
    mergedFile: location.mergedFile,
    ...(columns && { columns }),
    ...(outputs && { outputs }),
    ...(errorFile === null ? {} : { errorFile }),
  };
  assertPlanFits(plan);
  await assertReplaces?.();
  const { won, record } = await createOnce(storage, planPath, plan, digestOf);
  return { plan: record, isOurs: won };
}

/** Rows that a prompt is tried on first. */
const fewRowsLookedAt = 8;

/**
 * Refuses, before anything is planned, a prompt that fits none of the first rows: a wrong field
 * name would make every row a dead letter. Each of several datasets is checked.
 *
 * @throws SluiceError `PROMPT_UNFIT`, with the field and the most similar one of the rows.
 */
async function assertPromptsFit(
  files: readonly InputFile[],
  job: JobSpec,
  openFile: OpenFile,
): Promise<void> {
  const promptSet = renderedPrompts(job);
  if (promptSet === undefined) return;
  for (const dataset of new Set(files.map((file) => file.dataset))) {
    const watch = new FitWatch();
    const own = files.filter((file) => file.dataset === dataset);
    for await (const row of firstOf(own, job, openFile)) {
      const { value, index, file, line } = row;
      if (value === undefined) continue;
      try {
        watch.rendered(() => promptSet.requests(value, index, dataset), { value, file, line });
        break;
      } catch {
        // Others may fit.
        if (watch.isUnfit) break;
      }
    }
    watch.assertFit();
  }
}

/** The prompts for rows of the input; undefined if there are none. */
function renderedPrompts(job: JobSpec): PromptSet | undefined {
  if (job.model.engine === "pipeline") return firstStagePrompts(job);
  if (isBatchInput(job)) return undefined;
  const isAsked = [job.dataset, job.prompt, job.prompts].some((each) => each !== undefined);
  return isAsked || !describeEngine(job.model).takesRows ? promptSetOf(job, 0) : undefined;
}

/** The first rows; almost always the very first one is enough. */
async function* firstOf(
  files: readonly InputFile[],
  job: JobSpec,
  openFile: OpenFile,
): AsyncGenerator<InputRow> {
  const reading = { ...readOptionsOf(job), parse: true };
  let seen = 0;
  for (const most of [fewRowsLookedAt, limits.maxRowsLookedAt]) {
    const limit = Math.min(most, job.limit ?? Number.POSITIVE_INFINITY);
    const cut = { ...reading, rowsPerTask: limit, limit, openFile };
    for await (const { slices, firstRow } of scanSlices(files, cut)) {
      for await (const rows of readRows(slices, firstRow, openFile, reading)) {
        for (const row of rows) if (row.index >= seen) yield row;
      }
    }
    seen = limit;
  }
}

/**
 * The job with everything else that decides its answers, such as the digest of a module: if that
 * changes, a run is not continued.
 *
 * @throws SluiceError if a file of the engine cannot be read.
 */
export async function identifiedJob(job: JobSpec): Promise<JobSpec> {
  const { identified } = describeEngine(job.model);
  return identified ? { ...job, model: await identified(job.model) } : job;
}
