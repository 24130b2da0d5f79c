import { type StoreOptions, storeFromEnvironment } from "../data/s3/store-options.ts";
import { assertOptions, type OptionNames } from "../foundation/call-options.ts";
import { type ExactRow, type LongNumbers, parseExactly } from "../foundation/exact-json.ts";
import { linesOfChunks } from "../foundation/lines.ts";
import { silentLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { locateRun } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { type MendedVerification, verifyAndMend } from "../run/seal/verify.ts";
import { resultChunks } from "../run/status/results.ts";
import { StatusReader, type StatusReport } from "../run/status/status.ts";
import { runDependencies } from "./run-dependencies.ts";
import { placeIn } from "./surroundings.ts";
import { thisProcess } from "./this-process.ts";

/** How the place of a run is reached. */
export interface PlaceOptions {
  /** How to reach an object store, like a job's `store`. Missing keys come from the environment. */
  store?: StoreOptions;
}

export const placeNames: OptionNames<PlaceOptions> = { store: true };

/** Which lines `results` reads, and how. */
export interface ResultsOptions extends PlaceOptions {
  /** Dead letters instead of results. */
  failed?: boolean;
  /** The type of numbers that JavaScript would round; default `bigint`. */
  longNumbers?: LongNumbers;
  /** Wait for unfinished tasks; default: end at the first one. */
  follow?: boolean;
  /** Ends the waiting and the reading. */
  signal?: AbortSignal;
}

const resultsNames: OptionNames<ResultsOptions> = {
  ...placeNames,
  ...{ failed: true, longNumbers: true, follow: true, signal: true },
};

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
  assertOptions("status", options, placeNames);
  const { clock, processes, storage } = open(output, dependenciesFor(options));
  return new StatusReader(storage, { clock, processes }).read({ tasks: true });
}

/**
 * Recomputes everything that the seal of a run states from the files of the run, as `sluice verify`
 * does. Published results that differ from the seal are published again if their sources still
 * exist; `mended` names them.
 *
 * @returns the damages; an empty list proves that there are none.
 * @throws SluiceError `NOT_A_RUN`.
 * @example
 * const { damages } = await verify("out");
 * for (const { file, problem } of damages) console.error(`${file}: ${problem}`);
 */
export async function verify(
  output: string,
  options: PlaceOptions = {},
): Promise<MendedVerification> {
  assertOptions("verify", options, placeNames);
  const opened = open(output, dependenciesFor(options));
  return verifyAndMend(opened, opened);
}

/**
 * The results of a run in input order, also during the run: the rows of committed tasks, up to the
 * first task without a commit.
 *
 * Whole numbers beyond ±(2^53 − 1) are `bigint`. With `longNumbers: "text"`, every number that
 * JavaScript would round is text, decimals too.
 *
 * @throws SluiceError `NOT_A_RUN`, `RUN_DAMAGED`.
 * @example
 * for await (const row of results("out")) console.log(row.answer);
 */
export async function* results(
  output: string,
  options: ResultsOptions = {},
): AsyncGenerator<ExactRow> {
  assertOptions("results", options, resultsNames);
  const lines = resultLines(output, dependenciesFor(options), options);
  for await (const line of lines) {
    if (options.signal?.aborted) return;
    yield parseExactly(line, options.longNumbers) as ExactRow;
  }
}

/** The same as lines, exactly as in the files. After an abort, the last one may be cut off. */
export async function* resultLines(
  output: string,
  dependencies: RunDependencies,
  { failed = false, follow = false, signal }: ResultsOptions = {},
): AsyncGenerator<string> {
  const { clock, storage, outside } = open(output, dependencies);
  const options = { failed, follow, clock, keepsSpecials: true, signal };
  yield* linesOfChunks(resultChunks(storage, outside, options));
}

export function dependenciesFor({ store }: PlaceOptions): RunDependencies {
  const surroundings = thisProcess();
  const stores = { ...storeFromEnvironment(surroundings.environment), ...store };
  return runDependencies(surroundings, silentLogger, stores);
}

function open(output: string, own: RunDependencies) {
  const { openStorage, ...dependencies } = own;
  const { directory, outside } = locateRun(placeIn(thisProcess(), output));
  const places = { storage: runStorage(openStorage(directory)), outside: openStorage(outside) };
  return { ...dependencies, openStorage, ...places };
}
