import { dirname } from "node:path";
import { runDependencies } from "../api/run-dependencies.ts";
import { absoluteLocation } from "../data/storage/open.ts";
import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { type Logger, textLogger } from "../foundation/logger.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { planPath, successPath } from "../run/layout.ts";
import { locateRun, type RunLocation } from "../run/locate.ts";
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
export const runArgument = ["<run>", "the run directory, or the results file"] as const;

/**
 * The run that a path names: its directory, or the file that its results are merged into.
 *
 * @throws SluiceError `NOT_A_RUN`, with a hint where the path is near one.
 */
export async function openTarget(run: string, io: CliIo, logger?: Logger): Promise<RunTarget> {
  const path = absoluteLocation(io.workingDirectory, run);
  const location = locateRun(path);
  const log = logger ?? textLogger((line) => void io.stderr.write(line));
  const dependencies = runDependencies(io, log);
  const { openStorage } = dependencies;
  const storage = openStorage(location.directory);
  if (!(await holdsRun(storage))) {
    const above = dirname(path);
    const isNear = await holdsRun(openStorage(above));
    const options = isNear ? { hint: `${above} is a run: give that directory` } : {};
    throw new SluiceError("NOT_A_RUN", path, options);
  }
  return { location, dependencies, storage, outside: openStorage(location.outside) };
}

async function holdsRun(storage: Storage): Promise<boolean> {
  for (const path of [planPath, successPath]) if (await storage.stat(path)) return true;
  return false;
}
