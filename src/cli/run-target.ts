import { dirname, relative } from "node:path";
import { runDependencies } from "../api/run-dependencies.ts";
import { type StoreOptions, storeFromEnvironment } from "../data/s3/store-options.ts";
import { absoluteLocation, schemeOf } from "../data/storage/open.ts";
import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { type Logger, textLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { planPath, successPath } from "../run/directory/layout.ts";
import { locateRun, type RunLocation } from "../run/directory/locate.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { type Plan, readPlan } from "../run/plan/plan.ts";
import type { CliIo } from "./io.ts";

/** A run that a command was given. */
export interface RunTarget {
  location: RunLocation;
  dependencies: RunDependencies;
  /** Rooted at the run directory. */
  storage: Storage;
  /** Rooted where the run directory lies. */
  outside: Storage;
}

/** How every command describes its argument. */
export const runArgument = [
  "<run>",
  "the run directory, its results file, or its job file",
] as const;

/**
 * The run that a path names: its directory, the file that its results are merged into, or the job
 * file that it was made with.
 *
 * @throws SluiceError `NOT_A_RUN`, with a hint where the path is near one; of a job file what
 *   `loadJob` throws.
 */
export async function openTarget(run: string, io: CliIo, logger?: Logger): Promise<RunTarget> {
  const { path, store } = await outputOf(run, io);
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
 * The same run, with object stores as its job has them where neither options nor environment do:
 * its input may lie in one.
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

/** Where a run lies that is named by its output or by its job file. */
export async function outputOf(
  run: string,
  io: CliIo,
): Promise<{ path: string; store?: StoreOptions | undefined }> {
  const path = absoluteLocation(io.workingDirectory, run);
  if (!/\.ya?ml$/i.test(run)) return { path };
  const { loadJob } = await import("../run/job/load.ts");
  const { environment, workingDirectory } = io;
  const { job } = await loadJob({ file: run, environment, workingDirectory });
  return { path: job.output.path, store: job.store };
}

/** A place as an argument of a command that is typed here: short, and quoted where needed. */
export function argumentOf(place: string, { workingDirectory }: Pick<CliIo, "workingDirectory">) {
  const near = schemeOf(place) === undefined ? relative(workingDirectory, place) : place;
  const short = near === "" || near.startsWith("../..") ? place : near;
  return /^[\w@%+=:,./~-]+$/.test(short) ? short : `'${short.replaceAll("'", "'\\''")}'`;
}

async function holdsRun(storage: Storage): Promise<boolean> {
  for (const path of [planPath, successPath]) if (await storage.stat(path)) return true;
  return false;
}
