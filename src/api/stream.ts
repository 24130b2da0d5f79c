import { engineSteps, thisMachine, workerEnvironment } from "../backends/registry.ts";
import type { Column } from "../data/columns.ts";
import type { StageState } from "../engines/engine.ts";
import { describeEngine, openEngine } from "../engines/registry.ts";
import { keptText, parseExactly } from "../foundation/exact-json.ts";
import type { Json } from "../foundation/json.ts";
import { silentLogger } from "../foundation/logger.ts";
import { randomInteger } from "../foundation/random.ts";
import { assertStagesAskable, rowModelOpener } from "../run/execute/row-model.ts";
import { inputRows, type StreamedRow, streamRows } from "../run/execute/stream-rows.ts";
import type { JobInput } from "../run/job/schema.ts";
import { columnsOfFiles } from "../run/output/planned-columns.ts";
import { findInput } from "../run/plan/scan-input.ts";
import { backendContext } from "./backend-context.ts";
import { jobOf, type RunOptions, surroundingsOf, tellingLogger } from "./run.ts";
import { engineContext, runDependencies } from "./run-dependencies.ts";

/** A job without an output: its input, and what is done with it. */
export type InputJob = Pick<JobInput, "input" | "model" | "limit">;

/**
 * The rows of an input, as one line of JSON each. @throws SluiceError the fault of a broken row.
 */
export async function* inputLines(input: InputJob, options: StreamOptions): AsyncGenerator<string> {
  const surroundings = surroundingsOf(options);
  const job = await jobOf(input, surroundings);
  const dependencies = runDependencies(surroundings, silentLogger, job.store);
  for await (const rows of inputRows(job, dependencies, 0)) {
    options.signal?.throwIfAborted();
    for (const { raw, error } of rows) {
      if (error) throw error;
      // Only JSON over several lines has to be written again.
      yield raw.includes("\n") ? keptText(parseExactly(raw)) : raw;
    }
  }
}

/** The columns of a job's input; undefined if its files do not name them. */
export async function inputColumns(
  input: InputJob,
  options: StreamOptions,
): Promise<Column[] | undefined> {
  const surroundings = surroundingsOf(options);
  const job = await jobOf(input, surroundings);
  // A schema changes the types of values.
  if (job.input.some(({ schema }) => schema !== undefined)) return undefined;
  const { inputs } = runDependencies(surroundings, silentLogger, job.store);
  const { files, openFile } = await findInput(job, inputs);
  return columnsOfFiles(files, (source) => job.input[source]?.columns, openFile);
}

/** A text that identifies the input of a job, as far as a listing of its files can. */
export async function inputFacts(input: InputJob, options: StreamOptions): Promise<Json> {
  const surroundings = surroundingsOf(options);
  const job = await jobOf(input, surroundings);
  const { inputs } = runDependencies(surroundings, silentLogger, job.store);
  const { digest, modifiedDigest } = await findInput(job, inputs);
  return [digest, modifiedDigest];
}

/** How a program reads the results of a job without a run directory. */
export interface StreamOptions
  extends Pick<
    RunOptions,
    "install" | "signal" | "logger" | "workingDirectory" | "environment" | "onEvent"
  > {
  /** Most rows that are processed ahead of the reader. */
  ahead?(): number;
  /** Called at the end with the counts of each stage. */
  onEnd?(stages: readonly StageState[]): void;
}

/**
 * The results of a job in input order, without a run directory: nothing is kept. It ends when the
 * reader stops.
 *
 * @param functions functions of this program, which stages name by their index.
 * @throws SluiceError the error of the first failed row; errors that prevent a start.
 */
export async function* streamJob(
  input: JobInput,
  options: StreamOptions,
  functions: readonly unknown[],
): AsyncGenerator<StreamedRow> {
  const { install = true, logger = silentLogger } = options;
  const given = surroundingsOf(options);
  const job = await jobOf(input, given);
  assertStagesAskable(job);
  const surroundings = { ...given, environment: workerEnvironment(given.environment, job.env) };
  const signal = options.signal ?? new AbortController().signal;
  const context = { ...engineContext(surroundings, logger), functions, signal };
  const telling = tellingLogger(logger, options.onEvent);
  const steps = engineSteps(backendContext(given, telling));
  await steps.prepare(job, { install, logger: telling, signal });
  const { cores, freeMemoryBytes } = thisMachine();
  const known = describeEngine(job.model);
  const model = known.sharedAmong?.(job.model, 1, cores, freeMemoryBytes) ?? job.model;
  for (const message of known.notices?.(model, cores) ?? [])
    options.onEvent?.({ type: "notice", message });
  const dependencies = runDependencies(surroundings, logger, job.store);
  const seed = job.generation.seed ?? randomInteger(dependencies.random, 2 ** 31);
  const openRowModel = rowModelOpener(job, seed, openEngine, dependencies.inputs);
  const engine = await openEngine(model, { ...context, openRowModel });
  try {
    const { ahead } = options;
    yield* streamRows(job, { engine, dependencies, seed, signal, ahead });
    options.onEnd?.(engine.stages ?? []);
  } finally {
    await engine.close();
  }
}
