import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { schemeOf } from "../data/storage/open.ts";
import { assertOptions } from "../foundation/call-options.ts";
import { asSluiceError, SluiceError } from "../foundation/errors.ts";
import type { RunDependencies } from "../run/dependencies.ts";
import { planPath } from "../run/directory/layout.ts";
import { runStorage } from "../run/directory/run-storage.ts";
import { type RunStatus, StatusReader } from "../run/status/status.ts";
import { dependenciesFor, type PlaceOptions, placeNames } from "./inspect.ts";
import { programError } from "./program-words.ts";
import { placeIn } from "./surroundings.ts";
import { thisProcess } from "./this-process.ts";

/** A run, or a directory that looks like one and cannot be read. */
export interface FoundRun {
  /** Its directory. */
  location: string;
  /** Its status; undefined if it cannot be read. */
  status?: RunStatus;
  /** Why it cannot be read. */
  problem?: SluiceError;
}

/** Levels of folders to search. */
const maxDepth = 6;
const readsAtOnce = 8;

/**
 * Finds the runs below a folder or the prefix of a bucket, as `sluice runs` does. Searches six
 * levels of folders, except `node_modules` and names that begin with a dot or an underscore.
 *
 * @param place default: the working directory.
 * @throws SluiceError `NOT_FOUND` if the folder does not exist; errors of the store.
 * @example
 * for await (const { location, status } of runs("results")) {
 *   console.log(location, status?.state, status?.rows.failed);
 * }
 */
export async function* runs(place = ".", options: PlaceOptions = {}): AsyncGenerator<FoundRun> {
  assertOptions("runs", options, placeNames);
  const root = placeIn(thisProcess(), place);
  try {
    yield* runsBelow(root, dependenciesFor(options));
  } catch (error) {
    throw programError(error);
  }
}

/** The same for an absolute path or an address. */
export async function* runsBelow(
  root: string,
  dependencies: RunDependencies,
): AsyncGenerator<FoundRun> {
  const found = schemeOf(root) === undefined ? localRuns(root) : storedRuns(root, dependencies);
  let batch: Promise<FoundRun>[] = [];
  for await (const location of found) {
    batch.push(readRun(location, dependencies));
    if (batch.length < readsAtOnce) continue;
    yield* await Promise.all(batch);
    batch = [];
  }
  yield* await Promise.all(batch);
}

async function readRun(location: string, dependencies: RunDependencies): Promise<FoundRun> {
  const { clock, processes, openStorage } = dependencies;
  try {
    const reader = new StatusReader(runStorage(openStorage(location)), { clock, processes });
    return { location, status: (await reader.read()).run };
  } catch (error) {
    return { location, problem: asSluiceError(error) };
  }
}

/** Local folders that hold a run. The inside of a run is not searched. */
async function* localRuns(folder: string, depth = 0): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    if (depth > 0) return [];
    throw new SluiceError("NOT_FOUND", folder, { cause, hint: "name a folder" });
  });
  if (entries.some(({ name }) => name === "_sluice")) {
    const inside: string[] = await readdir(join(folder, "_sluice")).catch(() => []);
    if (inside.includes("plan.json")) return yield folder;
  }
  if (depth === maxDepth) return;
  const folders = entries
    .filter((entry) => entry.isDirectory() && !/^(\.|_|node_modules$)/.test(entry.name))
    .map(({ name }) => name)
    .sort();
  for (const name of folders) yield* localRuns(join(folder, name), depth + 1);
}

async function* storedRuns(
  place: string,
  { openStorage }: RunDependencies,
): AsyncGenerator<string> {
  const root = place.replace(/\/+$/, "");
  for await (const { path } of openStorage(root).list("")) {
    if (path === planPath) yield root;
    else if (path.endsWith(`/${planPath}`)) yield `${root}/${path.slice(0, -planPath.length - 1)}`;
  }
}
