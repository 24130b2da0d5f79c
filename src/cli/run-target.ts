import { readFile } from "node:fs/promises";
import { dirname, relative } from "node:path";
import type { Command } from "commander";
import { runDependencies } from "../api/run-dependencies.ts";
import { type StoreOptions, storeFromEnvironment } from "../data/s3/store-options.ts";
import { absoluteLocation, schemeOf } from "../data/storage/open.ts";
import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { jsonObjectIn } from "../foundation/json.ts";
import { type Logger, silentLogger, textLogger } from "../foundation/logger.ts";
import { quotedWord } from "../foundation/shown-path.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { planPath, successPath } from "../run/directory/layout.ts";
import { locateRun, type RunLocation } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { type Plan, readPlan } from "../run/plan/plan.ts";
import type { CliIo } from "./io.ts";
import { withStoreFlags } from "./store-flags.ts";

/** A run that was given to a command. */
export interface RunTarget {
  dependencies: RunDependencies;
  location: RunLocation;
  storage: Storage;
  /** Rooted at the run directory's parent. */
  outside: Storage;
}

/** How help describes a run. */
export const runDescription = "the run directory, its results file, or its job file";

/** Declares a command's run, and the flags of its object store, as `withStoreFlags` does. */
export function withRun(command: Command, given: CliIo): CliIo {
  const io = withStoreFlags(command, given);
  command.argument("<run>", runDescription);
  return io;
}

/**
 * The run of a path: its directory, the merged file of its results, or its job file.
 *
 * @throws SluiceError `NOT_A_RUN`, with a hint if the path is close to a run; for a job file,
 *   errors of `loadJob`.
 */
export async function openTarget(run: string, io: CliIo, logger?: Logger): Promise<RunTarget> {
  const { path, store = storeFromEnvironment(io.environment) } = await outputOf(run, io);
  const location = locateRun(path);
  const log = logger ?? textLogger((line) => void io.stderr.write(line));
  const dependencies = runDependencies(io, log, store);
  const { openStorage } = dependencies;
  const storage = runStorage(openStorage(location.directory));
  if (!(await holdsRun(storage))) {
    const above = dirname(path);
    const isNear = await holdsRun(openStorage(above));
    const options = isNear ? { hint: `${above} is a run: give that directory` } : {};
    throw new SluiceError("NOT_A_RUN", path, options);
  }
  return { location, dependencies, storage, outside: openStorage(location.outside) };
}

/**
 * The same run, with the job's object stores if neither options nor environment define them: its
 * input may be in one.
 */
export async function withOwnStores(
  target: RunTarget,
  io: CliIo,
): Promise<RunTarget & { plan: Plan }> {
  const plan = await readPlan(target.storage);
  const { store } = plan.job;
  if (!store) return { ...target, plan };
  const given = Object.entries(storeFromEnvironment(io.environment));
  const own = { ...store, ...Object.fromEntries(given.filter(([, value]) => value !== undefined)) };
  const dependencies = runDependencies(io, target.dependencies.logger, own);
  return { ...target, dependencies, plan };
}

/** The place of a run, from its output or its job file. */
export async function outputOf(
  run: string,
  io: CliIo,
): Promise<{ path: string; store?: StoreOptions | undefined }> {
  const path = absoluteLocation(io.workingDirectory, run);
  if (!/\.ya?ml$/i.test(run) && !(await isJsonJob(path, io))) return { path };
  const { loadJob } = await import("../run/job/load.ts");
  const { environment, workingDirectory } = io;
  const { job } = await loadJob({ file: run, environment, workingDirectory });
  return { path: job.output.path, store: job.store };
}

/** True for a job file of JSON: `.json` is the ending of results as well. */
async function isJsonJob(path: string, io: CliIo): Promise<boolean> {
  if (!/\.json$/i.test(path) || schemeOf(path) !== undefined) return false;
  const { openStorage } = runDependencies(io, silentLogger);
  if (await holdsRun(runStorage(openStorage(locateRun(path).directory)))) return false;
  return jsonObjectIn(await readFile(path, "utf8").catch(() => "")) !== undefined;
}

/** A place as an argument of a command to type here: short, and quoted where needed. */
export function argumentOf(place: string, { workingDirectory }: Pick<CliIo, "workingDirectory">) {
  const near = schemeOf(place) === undefined ? relative(workingDirectory, place) : place;
  const short = near === "" || near.startsWith("../..") ? place : near;
  // Otherwise the name would be read as an option.
  return quotedWord(short.startsWith("-") ? `./${short}` : short);
}

/** A run as the arguments of a command to type here. */
export const runArguments = (
  place: string,
  { openStorage }: Pick<RunDependencies, "openStorage">,
  io: Pick<CliIo, "workingDirectory">,
) => argumentOf(place, io) + (openStorage(place).flags ?? "");

async function holdsRun(storage: Storage): Promise<boolean> {
  for (const path of [planPath, successPath]) if (await storage.stat(path)) return true;
  return false;
}
