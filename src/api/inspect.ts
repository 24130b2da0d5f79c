import { type StoreOptions, storeFromEnvironment } from "../data/s3/store-options.ts";
import { absoluteLocation } from "../data/storage/open.ts";
import { type ExactRow, type LongNumbers, parseExactly } from "../foundation/exact-json.ts";
import { linesOfChunks } from "../foundation/lines.ts";
import { silentLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { locateRun } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { type MendedVerification, verifyAndMend } from "../run/seal/verify-and-mend.ts";
import { resultChunks } from "../run/status/results.ts";
import { StatusReader, type StatusReport } from "../run/status/status.ts";
import { runDependencies } from "./run-dependencies.ts";
import { thisProcess } from "./this-process.ts";

/** How the place of a run is reached. */
export interface PlaceOptions {
  /** An object store, as a job's `store` says it; what it leaves out is as the environment says. */
  store?: StoreOptions;
}

/** What `results` gives. */
export interface ResultsOptions extends PlaceOptions {
  /** Dead letters instead of results. */
  failed?: boolean;
  /** How code gets numbers that JavaScript would round; default `bigint`. */
  longNumbers?: LongNumbers;
  /** Wait for tasks that are not done yet, until all are; default: end at the first of them. */
  follow?: boolean;
  /** Ends the waiting and the reading. */
  signal?: AbortSignal;
}

/**
 * How far a run is, with its tasks and workers: what `sluice status` shows.
 *
 * @param output the run directory, or the results file, as the job's `output.path` names it.
 * @throws SluiceError `NOT_A_RUN`, `RUN_DAMAGED`.
 * @example
 * const { state, tasks } = (await status("out")).run;
 * console.log(`${state}: ${tasks.successful} of ${tasks.total} tasks`);
 */
export async function status(output: string, options: PlaceOptions = {}): Promise<StatusReport> {
  const { clock, processes, storage } = open(output, dependenciesFor(options));
  return new StatusReader(storage, { clock, processes }).read({ tasks: true });
}

/**
 * Recomputes everything that the seal of a run states, from its files: what `sluice verify` does.
 * Published results that are not as the seal says are published again, as far as the files are
 * there that they are made of; `mended` names them.
 *
 * @returns what is damaged; an empty list is the proof that nothing is.
 * @throws SluiceError `NOT_A_RUN`.
 * @example
 * const { damages } = await verify("out");
 * for (const { file, problem } of damages) console.error(`${file}: ${problem}`);
 */
export async function verify(
  output: string,
  options: PlaceOptions = {},
): Promise<MendedVerification> {
  const opened = open(output, dependenciesFor(options));
  return verifyAndMend(opened, opened);
}

/**
 * The results of a run in input order, also while it goes on: rows of tasks that are committed, up
 * to the first task that is not.
 *
 * Whole numbers beyond ±(2^53 − 1) are `bigint`. With `longNumbers: "text"` all numbers that
 * JavaScript would round, decimals too, are text.
 *
 * @throws SluiceError `NOT_A_RUN`, `RUN_DAMAGED`.
 * @example
 * for await (const row of results("out")) console.log(row.answer);
 */
export async function* results(
  output: string,
  options: ResultsOptions = {},
): AsyncGenerator<ExactRow> {
  const lines = resultLines(output, dependenciesFor(options), options);
  for await (const line of lines) yield parseExactly(line, options.longNumbers) as ExactRow;
}

/** The same as lines, as they stand in the files. */
export async function* resultLines(
  output: string,
  dependencies: RunDependencies,
  { failed = false, follow = false, signal }: ResultsOptions = {},
): AsyncGenerator<string> {
  const { clock, storage, outside } = open(output, dependencies);
  const options = { failed, follow, clock, keepsSpecials: true, ...(signal && { signal }) };
  yield* linesOfChunks(resultChunks(storage, outside, options));
}

export function dependenciesFor({ store }: PlaceOptions): RunDependencies {
  const surroundings = thisProcess();
  const stores = { ...storeFromEnvironment(surroundings.environment), ...store };
  return runDependencies(surroundings, silentLogger, stores);
}

function open(output: string, own: RunDependencies) {
  const { openStorage, ...dependencies } = own;
  const { directory, outside } = locateRun(
    absoluteLocation(thisProcess().workingDirectory, output),
  );
  const places = { storage: runStorage(openStorage(directory)), outside: openStorage(outside) };
  return { ...dependencies, openStorage, ...places };
}
