import { plan, type RunOptions, runNames, runWith, surroundingsOf } from "../api/run.ts";
import { inputColumns, type StreamOptions, streamJob } from "../api/stream.ts";
import { placeIn } from "../api/surroundings.ts";
import { type Column, ColumnTally } from "../data/columns.ts";
import { withoutEnding } from "../data/formats/result-format.ts";
import type { StageState } from "../engines/engine.ts";
import { assertOptions, type OptionNames } from "../foundation/call-options.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { ExactRow } from "../foundation/exact-json.ts";
import type { JsonObject } from "../foundation/json.ts";
import { parseMemory } from "../foundation/memory-size.ts";
import { quotedWord } from "../foundation/shown-path.ts";
import { plainJson } from "../foundation/typed-json.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { RunPreview } from "../run/preview/preview.ts";
import type { RunSummary } from "../run/status/events.ts";
import type { RunResult } from "../run/status/run-result.ts";
import { printNotice } from "./print-rows.ts";
import { jobOfSegment, type Segment, segmentOf, withStep } from "./segment.ts";
import type { Pipeline, Source, Step } from "./step.ts";
import { optionsPage } from "./step-code.ts";
import { type InterimJob, Workshop } from "./workshop.ts";

/** What the stages of a run may use of each worker's machine; default: all of it. */
export interface Resources {
  /** Cores, for `numCpus`. */
  cpus?: number;
  /** GPUs, for `numGpus`. */
  gpus?: number;
  /** Memory for `memory`: bytes, or text such as `32G`; default: the free memory. */
  memory?: number | string;
}

/** Options for reading a dataset without a run. */
export interface ReadDatasetOptions
  extends Pick<
    RunOptions,
    "install" | "signal" | "logger" | "workingDirectory" | "environment" | "onEvent"
  > {
  resources?: Resources;
  /** Job keys that matter for reading: object stores, variables, numbers, tries of a request. */
  job?: Pick<JobInput, "store" | "env" | "longNumbers" | "retries">;
}

/** Options for running a dataset. */
export interface RunDatasetOptions extends RunOptions {
  /** Where results go: a directory, a file such as `out.jsonl`, or an object as in a job. */
  output: NonNullable<JobInput["output"]>;
  resources?: Resources;
  /**
   * Computes everything again: replaces the run in the output and those in `OUTPUT.stages/`.
   * Default: rows that an earlier call answered are not computed again.
   */
  fresh?: boolean;
  /** Other keys of the job: `name`, `retries`, `maxFailedRows`, `workers`, `budget`, `store`. */
  job?: Omit<JobInput, "input" | "dataset" | "model" | "output" | "prompt" | "prompts" | "schema">;
}

/** The result of a run of a dataset. */
export interface DatasetRun extends RunResult {
  /** What each stage did during this call, over all workers, also in the earlier runs. */
  stages: readonly StageState[];
  /**
   * Summaries of the earlier runs, of stages before a `shuffle`, `sample` or `limit`, in order.
   * Rows that failed in one of them are counted only there, and also make `exitCode` 1.
   */
  before: readonly RunSummary[];
  /** Rows whose results an earlier call computed, including those of the earlier runs. */
  resumed: number;
}

const readNames: OptionNames<ReadDatasetOptions> = {
  ...{ install: true, signal: true, logger: true, workingDirectory: true, environment: true },
  ...{ onEvent: true, resources: true, job: true },
};
const jobNames = { output: true, job: true, resources: true } as const;
const runDatasetNames: OptionNames<RunDatasetOptions> = { ...runNames, ...jobNames, fresh: true };

export async function runDataset(
  pipeline: Pipeline,
  options: RunDatasetOptions,
  typedOutput = false,
): Promise<DatasetRun> {
  assertOptions("a run of a dataset", options, runDatasetNames, optionsPage);
  const { fresh, overwrite = false, ...others } = options;
  const isFresh = fresh ?? overwrite;
  if (isFresh && others.fork) {
    const name = fresh ? "fresh" : "overwrite";
    throw new SluiceError("USAGE", `${name}: true replaces the runs, and fork: true leaves them`, {
      hint: `leave ${name} or fork out`,
    });
  }
  const workshop = Workshop.beside(outputPath(options), {
    ...interim(others),
    overwrite: isFresh,
  });
  const { job: _, output: __, resources: ___, ...running } = others;
  const { tally } = workshop;
  const lastRun = async (segment: Segment) => {
    const job = jobWith(segment, options, typedOutput);
    const onEvent = tally.hearing(options.onEvent);
    const { functions } = segment;
    return await runWith(job, { ...running, onEvent, overwrite: isFresh }, { functions });
  };
  const result = await workshop.lastSegment(pipeline).then(lastRun, (thrown: unknown) => {
    const { stoppedRun } = workshop;
    if (stoppedRun !== undefined && stoppedRun.error === thrown) return stoppedRun;
    const isCanceled = options.signal?.aborted && thrown === options.signal.reason;
    throw isCanceled && !(thrown instanceof SluiceError) ? new SluiceError("RUN_CANCELED") : thrown;
  });
  const exitCode = workshop.interimRuns.reduce(
    (code, run) => code || run.exitCode,
    result.exitCode,
  );
  const before = workshop.interimRuns.map(({ summary }) => summary);
  const resumed = [...before, result.summary].reduce((sum, { rows }) => sum + rows.resumed, 0);
  if (resumed > 0) tellResumed(resumed, result.summary.output, options);
  return { ...result, exitCode, stages: tally.stages(), before, resumed };
}

/** Callers who did not ask for results of an earlier call must hear of them. */
function tellResumed(rows: number, output: string, { onEvent }: RunDatasetOptions): void {
  const count = rows === 1 ? "1 row was" : `${rows} rows were`;
  const message = `${count} computed by an earlier call and not again (fresh: true does): ${output}`;
  if (onEvent) onEvent({ type: "notice", message });
  else printNotice(message);
}

/**
 * Runs a dataset and returns its results as another dataset.
 *
 * @throws SluiceError the error that stopped the run, or `ROW_FAILED` if too many rows failed.
 */
export async function materializeDataset(
  pipeline: Pipeline,
  options: RunDatasetOptions,
): Promise<Source> {
  assertReadable(outputPath(options));
  const { error, summary, exitCode } = await runDataset(pipeline, options, true);
  if (error) throw error;
  if (exitCode !== 0) {
    const [first = ""] = Object.values(summary.error_messages);
    const detail = `${summary.rows.failed} of ${summary.rows.total} rows; the first: ${first}`;
    const output = quotedWord(summary.output);
    throw new SluiceError("ROW_FAILED", detail, {
      file: summary.output,
      hint: `job: { maxFailedRows } says how many may fail; sluice results ${output} --failed shows them`,
    });
  }
  // No task has a file of results then.
  if (summary.rows.total === 0) return { kind: "rows", rows: [] };
  const isFile = summary.output.endsWith(".jsonl");
  const path = isFile ? summary.output : `${summary.output}/part-*.jsonl`;
  return { kind: "input", input: [{ path, format: "jsonl" }], isTyped: true };
}

/** Only lines keep the types of values. */
function assertReadable(output: string): void {
  if (output.endsWith(".jsonl") || withoutEnding(output) === output) return;
  throw new SluiceError("UNSUPPORTED", "a materialized dataset is read from JSON lines", {
    file: output,
    hint: "name a folder or a file .jsonl; writeParquet, writeCsv and writeJson write other forms",
  });
}

/** The job of a dataset that needs nothing of this program. */
export function jobOfDataset(
  { source, steps }: Pipeline,
  options: Pick<RunDatasetOptions, "output" | "job" | "resources">,
): JobInput {
  assertOptions("the job of a dataset", options, jobNames, optionsPage);
  if (source.kind === "rows") throw bound("its rows come from this program");
  if (source.kind === "union") throw bound("the rows of its datasets are put together first");
  let segment = segmentOf(source.input, source.isTyped);
  for (const step of steps) {
    const next = withStep(segment, step);
    if (next === undefined) throw bound(`${step.kind} needs all rows before it`);
    segment = next;
  }
  if (segment.functions.length > 0) throw bound("a stage is a function of this program");
  return jobWith(segment, options);
}

function bound(why: string): SluiceError {
  return new SluiceError("UNSUPPORTED", `this dataset is not a job by itself: ${why}`, {
    hint: "call run(), or give modules in place of functions and files in place of rows",
  });
}

/** What a run of the dataset would do. */
export async function planDataset(
  pipeline: Pipeline,
  options: RunDatasetOptions,
): Promise<RunPreview> {
  assertOptions("the plan of a dataset", options, runDatasetNames, optionsPage);
  const workshop = await Workshop.temporary(interim(options), outputPath(options));
  try {
    const { install, signal, logger, workingDirectory, environment, onEvent } = options;
    const planning = { install, signal, logger, workingDirectory, environment, onEvent };
    return await plan(jobWith(await workshop.lastSegment(pipeline), options), planning);
  } finally {
    await workshop.close();
  }
}

/**
 * The result rows.
 *
 * @param most rows that are wanted; no more than the missing ones are computed ahead.
 */
export async function* rowsOfDataset(
  pipeline: Pipeline,
  options: ReadDatasetOptions,
  most?: number,
  onEnd?: StreamOptions["onEnd"],
): AsyncGenerator<ExactRow> {
  assertOptions("reading a dataset", options, readNames, optionsPage);
  const workshop = await Workshop.temporary(interim(options));
  let given = 0;
  try {
    const segment = await workshop.lastSegment(pipeline);
    const job = { ...options.job, ...jobOfSegment(segment, written(options.resources)) };
    const ahead = most === undefined ? undefined : () => most - given;
    const { tally } = workshop;
    const reading: StreamOptions = {
      ...options,
      ahead,
      onEnd(states) {
        tally.note("", states);
        onEnd?.(tally.stages());
      },
    };
    for await (const { value } of streamJob(job, reading, segment.functions)) {
      given++;
      yield value;
    }
  } catch (error) {
    throw workshop.placed(error);
  } finally {
    await workshop.close();
  }
}

const schemaRows = 20;

/** A column of a dataset's rows. */
export interface DatasetColumn extends Column {
  /** Rows that it was inferred from; absent if the files name it (Parquet, Arrow). */
  inferredFromRows?: number;
}

export async function schemaOfDataset(
  pipeline: Pipeline,
  options: ReadDatasetOptions,
): Promise<DatasetColumn[]> {
  assertOptions("the schema of a dataset", options, readNames, optionsPage);
  const known = await columnsOfSource(pipeline, options);
  if (known) return known;
  const tally = new ColumnTally();
  let count = 0;
  for await (const row of rowsOfDataset(pipeline, options, schemaRows)) {
    tally.add(plainJson(row) as ExactRow);
    if (++count >= schemaRows) break;
  }
  return tally.columns().map((column) => ({ ...column, inferredFromRows: count }));
}

/** The columns that the files name, as long as each later step keeps columns. */
async function columnsOfSource(
  { source, steps }: Pipeline,
  options: ReadDatasetOptions,
): Promise<Column[] | undefined> {
  if (source.kind !== "input") return undefined;
  const job = { ...options.job, ...jobOfSegment(segmentOf(source.input), undefined) };
  let columns = await inputColumns(job, options);
  for (const step of steps) columns = columns && columnsBehind(step, columns);
  return columns;
}

function columnsBehind(step: Step, columns: Column[]): Column[] | undefined {
  if (step.kind !== "stage") return columns;
  const { kind, columns: named } = step.stage;
  if (kind === "filter") return columns;
  if (kind === "select") {
    const found = (named as string[]).map((name) => columns.find((each) => each.name === name));
    return found.filter((column) => column !== undefined);
  }
  if (kind !== "rename") return undefined;
  const names = named as Readonly<Record<string, string>>;
  return columns.map((column) => ({
    ...column,
    name: Object.hasOwn(names, column.name) ? names[column.name]! : column.name,
  }));
}

function jobWith(
  segment: Segment,
  { output, job, resources }: Pick<RunDatasetOptions, "output" | "job" | "resources">,
  typedOutput = false,
): JobInput {
  const own = jobOfSegment(segment, written(resources), typedOutput);
  const shard = job?.shard ?? own.shard;
  const limits = [own.limit, job?.limit].filter((limit) => limit !== undefined);
  const limit = limits.length === 0 ? {} : { limit: Math.min(...limits) };
  return { ...job, ...own, ...(shard && { shard }), ...limit, output };
}

function outputPath({ output, workingDirectory }: RunDatasetOptions): string {
  const path = typeof output === "string" ? output : (output.path ?? "out");
  return placeIn(surroundingsOf({ workingDirectory }), path);
}

function interim({ resources, job, ...options }: ReadDatasetOptions | RunDatasetOptions) {
  const own = written(resources);
  return { ...options, ...(own && { resources: own }), ...(job && { job: interimJob(job) }) };
}

/** The job for earlier runs: without the keys that cut or name the last run. */
function interimJob(job: NonNullable<RunDatasetOptions["job"]>): InterimJob {
  const { limit: _, sample: __, shard: ___, name: ____, ...others } = job;
  return others;
}

function written(resources: Resources | undefined): JsonObject | undefined {
  if (resources === undefined) return undefined;
  const { memory, ...others } = resources;
  const memoryBytes = typeof memory === "string" ? parseMemory(memory) : memory;
  return { ...others, ...(memoryBytes !== undefined && { memoryBytes }) };
}
