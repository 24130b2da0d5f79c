import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import type { Commit } from "./attempt/commit.ts";
import { Coordinator, rulingCoordinator } from "./coordinate/coordinator.ts";
import type { RunDependencies } from "./dependencies.ts";
import {
  attemptPaths,
  attemptPrefix,
  type Generation,
  generationPrefix,
  outputsPrefix,
  planPathOf,
  probePrefix,
  retryReadyPath,
  workerPrefix,
} from "./layout.ts";
import { staleLeftovers } from "./leftovers.ts";
import type { RunLocation } from "./locate.ts";
import { type Plan, readPlan } from "./plan.ts";
import { readJson } from "./records.ts";
import type { Ready } from "./retry/seal-retry.ts";
import { type Manifest, readManifest } from "./seal/manifest.ts";

const cleanedPrefixes = [
  attemptPrefix,
  generationPrefix,
  probePrefix,
  workerPrefix,
  // Tasks of plans that lost a race, and drafts.
  "_sluice/tasks",
  `${outputsPrefix}pending-`,
];

/** What a cleaning removed, or would remove. */
export interface Cleaning {
  files: number;
  /** Bytes that are free again. */
  freedBytes: number;
  /** Bytes of files that are published under another name and stay under that one. */
  publishedBytes: number;
}

/**
 * Removes what a sealed run no longer needs: the files of attempts, journals, drafts, heartbeats,
 * and what killed processes left of files that they were writing.
 * What was published, and everything that a verification reads, stays; so do the few bytes that
 * tell which answers were cut, since a later retry may ask for them.
 *
 * @param isDryRun only count.
 * @throws SluiceError `RUN_OPEN` when the run is not sealed, or a retry of it is not; `RUN_DAMAGED`
 *   when a published file is missing; `COORDINATOR_LIVES` while somebody works on the run.
 */
export async function cleanRun(
  dependencies: RunDependencies,
  location: RunLocation,
  isDryRun: boolean,
): Promise<Cleaning> {
  const { clock, random, processes, openStorage } = dependencies;
  const storage = openStorage(location.directory);
  const plan = await readPlan(storage);
  await assertSealed(dependencies, location);
  const cleaning: Cleaning = { files: 0, freedBytes: 0, publishedBytes: 0 };
  const id = sortableId(clock, random);
  // The job as it was last carried out stays on record: its budget of failures may be another.
  const job = (await rulingCoordinator(storage))?.job ?? plan.job;
  const coordinator = isDryRun
    ? undefined
    : await Coordinator.rule({ storage, clock, processes, id, job });
  try {
    // Once more: until this process ruled, another one may have begun a retry.
    const sealed = await assertSealed(dependencies, location);
    const kept = await keptPaths(dependencies, location, sealed);
    const published = await publishedPaths(storage, sealed);
    for (const prefix of cleanedPrefixes) {
      const removable: string[] = [];
      for await (const { path, bytes } of storage.list(prefix)) {
        if (kept.has(path)) continue;
        cleaning.files++;
        if (published.has(path)) cleaning.publishedBytes += bytes;
        else cleaning.freedBytes += bytes;
        removable.push(path);
      }
      await coordinator?.remove(removable);
    }
    await cleanLeftovers(dependencies, location, plan, coordinator, cleaning);
  } finally {
    await coordinator?.end();
  }
  return cleaning;
}

/** Removes what killed processes left of files they were writing; counts where nobody rules. */
async function cleanLeftovers(
  { openStorage }: RunDependencies,
  { directory, outside, mergedFile }: RunLocation,
  { outputs }: Plan,
  coordinator: Coordinator | undefined,
  cleaning: Cleaning,
): Promise<void> {
  const places: [string, string][] = [[directory, ""]];
  if (mergedFile !== null) places.push([outside, mergedFile]);
  if (outputs && outputs.base !== "run") {
    places.push([outputs.base === "outside" ? outside : outputs.base, ""]);
  }
  for (const [place, prefix] of places) {
    const storage = openStorage(place);
    for await (const { path, bytes } of staleLeftovers(storage, prefix)) {
      cleaning.files++;
      cleaning.freedBytes += bytes;
      await coordinator?.remove([path], storage);
    }
  }
}

/** The seal, once it is certain that everything it names is there under its published name. */
async function assertSealed(
  { openStorage }: RunDependencies,
  { directory, outside }: RunLocation,
): Promise<Manifest> {
  const storage = openStorage(directory);
  const sealed = await readManifest(storage);
  if (!sealed) throw new SluiceError("RUN_OPEN", "only of a sealed run something can be spared");
  if (await storage.stat(planPathOf(sealed.generation + 1))) {
    const hint = "run the same sluice retry command again";
    throw new SluiceError("RUN_OPEN", "a retry of it is not sealed", { hint });
  }
  for (const { part, deadLetters } of sealed.tasks) {
    for (const file of [part, deadLetters]) {
      if (file && (await storage.stat(file.path))?.bytes !== file.bytes) throw missing(file.path);
    }
  }
  for (const file of [sealed.merged, sealed.errorFile]) {
    if (!file) continue;
    const found = await openStorage(outside).stat(file.path);
    if (found?.bytes !== file.bytes) throw missing(file.path);
  }
  return sealed;
}

function missing(path: string): SluiceError {
  return new SluiceError("RUN_DAMAGED", "it is missing or has another size", { file: path });
}

/** The files below the cleaned prefixes that are needed. */
async function keptPaths(
  { openStorage }: RunDependencies,
  { directory }: RunLocation,
  sealed: Manifest,
): Promise<Set<string>> {
  const storage = openStorage(directory);
  const kept = new Set<string>();
  const cutRetries = new Set<number>();
  for (let generation = 1; generation <= sealed.generation; generation++) {
    const { tasks, where } = await readPlan(storage, generation);
    kept.add(planPathOf(generation)).add(tasks.file.path).add(tasks.index.path);
    if (where === "finish_reason=length") cutRetries.add(generation);
  }
  for (const { task, attempt, source, lineCounts, retried = [] } of sealed.tasks) {
    const { ids, cutRows } = attemptPaths(task, firstOf(sealed), attempt);
    kept.add(ids).add(cutRows);
    if (source) kept.add(source.path);
    if (lineCounts) kept.add(lineCounts.path);
    for (const { commit, generation } of retried) {
      const again = await readJson<Commit>(storage, commit.path);
      if (again?.cutRows) kept.add(again.cutRows.path);
      // Rows that it names kept their answer, which is cut still.
      if (again?.deadLetters && cutRetries.has(generation)) kept.add(again.deadLetters.path);
    }
  }
  return kept;
}

/** Names under which published files lie a second time: publishing is linking. */
async function publishedPaths(storage: Storage, sealed: Manifest): Promise<Set<string>> {
  const published = new Set<string>();
  const add = (path: string | undefined) => void (path && published.add(path));
  const merges = new Map<number, Ready | undefined>();
  for (const { generation } of sealed.retries ?? []) {
    merges.set(generation, await readJson<Ready>(storage, retryReadyPath(generation)));
  }
  for (const { task, attempt, part, source, encoded, deadLetters, retried } of sealed.tasks) {
    add(encoded);
    const last = retried?.at(-1);
    const merged = last && merges.get(last.generation)?.tasks[task];
    const own = attemptPaths(task, firstOf(sealed), attempt);
    if (part && !source) add(last ? merged?.part?.path : own.part);
    if (deadLetters) add(last ? merged?.deadLetters?.path : own.deadLetters);
  }
  return published;
}

function firstOf({ runId }: Manifest): Generation {
  return { runId, generation: 1 };
}
