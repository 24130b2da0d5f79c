import type { Storage } from "../data/storage/storage.ts";
import { SluiceError } from "../foundation/errors.ts";
import { sortableId } from "../foundation/ids.ts";
import type { Commit } from "./attempt/commit.ts";
import { Coordinator, leadingCoordinator } from "./coordinate/coordinator.ts";
import { someoneLeft } from "./coordinate/lives.ts";
import { deadMenders } from "./coordinate/menders.ts";
import type { ProcessIdentity } from "./coordinate/processes.ts";
import type { RunDependencies } from "./dependencies.ts";
import {
  attemptPaths,
  attemptPrefix,
  claimPrefix,
  generationPrefix,
  outputsPrefix,
  planPathOf,
  probePrefix,
  providerBatchesPrefix,
  workerPrefix,
} from "./directory/layout.ts";
import { outsideFiles, staleLeftovers } from "./directory/leftovers.ts";
import type { RunLocation } from "./directory/locate.ts";
import { readJson } from "./directory/records.ts";
import { runStorage, runWords } from "./directory/run-storage.ts";
import { madeOutputs, outputStorage } from "./output/plan-outputs.ts";
import { publishedForm } from "./output/published-form.ts";
import { type Plan, readPlan, standingPlan } from "./plan/plan.ts";
import { spooledInputs } from "./plan/replace-run.ts";
import { abandon, answeredNothing, openRetry } from "./retry/abandon-retry.ts";
import { cutRows } from "./retry/cut-rows.ts";
import type { Manifest } from "./seal/manifest.ts";
import { completeSeal } from "./seal/publish-seal.ts";

const cleanedPrefixes = [
  attemptPrefix,
  claimPrefix,
  generationPrefix,
  probePrefix,
  providerBatchesPrefix,
  workerPrefix,
  // Tasks of plans that lost a race, and drafts.
  "_sluice/tasks",
  `${outputsPrefix}pending-`,
];

/** What a cleaning removed, or would remove. */
export interface Cleaning {
  files: number;
  freedBytes: number;
  /** Bytes of files that stay, under another name. */
  publishedBytes: number;
  /**
   * A process that worked on the run and may do so again, such as one of another host that recorded
   * no end. Results stay twice then, so that its late writes can be repaired.
   */
  mayReturn?: ProcessIdentity;
}

/**
 * Removes what a sealed run no longer needs: files of attempts, journals, drafts, heartbeats,
 * records of dead menders, spooled standard input that no retry can need, and drafts of killed
 * processes. Published files stay, with everything that a verification reads and the few bytes that
 * say which answers were cut: a later retry may send these rows again. A retry that began without
 * an answer is dropped.
 *
 * @param isDryRun only counts.
 * @throws SluiceError `RUN_OPEN` if the run is not sealed, or a retry of it has answers;
 *   `RUN_DAMAGED` if a published file is missing; `COORDINATOR_LIVES` while a process works on it.
 */
export async function cleanRun(
  dependencies: RunDependencies,
  location: RunLocation,
  isDryRun: boolean,
): Promise<Cleaning> {
  const { clock, random, processes, openStorage } = dependencies;
  const storage = runStorage(openStorage(location.directory));
  const plan = await readPlan(storage);
  await assertSealed(dependencies, location);
  const cleaning: Cleaning = { files: 0, freedBytes: 0, publishedBytes: 0 };
  const id = sortableId(clock, random);
  // The job of the last call stays on record: its limit of failed rows may differ.
  const job = (await leadingCoordinator(storage))?.job ?? plan.job;
  const coordinator = isDryRun
    ? undefined
    : await Coordinator.lead({ storage, clock, processes, id, job });
  try {
    // Checked again: another process may have begun a retry before this one led.
    const { sealed, retry } = await assertSealed(dependencies, location);
    if (retry && !isDryRun) {
      const outside = openStorage(location.outside);
      await abandon({ storage, outside, openStorage, plan: retry, worker: id });
    }
    const kept = await keptPaths(storage, sealed);
    const published = publishedPaths(sealed);
    const mayReturn = await someoneLeft(storage, processes, coordinator?.record.number);
    if (mayReturn) {
      cleaning.mayReturn = mayReturn;
      for (const path of sourcesOf(sealed)) kept.add(path);
    }
    for (const prefix of cleanedPrefixes) {
      // The next cleaning needs to know of it as well.
      if (mayReturn && prefix === workerPrefix) continue;
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
    if (await isInputDone(storage, sealed)) {
      for (const path of spooledInputs(plan, location)) {
        const { bytes } = (await storage.stat(path)) ?? {};
        if (bytes === undefined) continue;
        cleaning.files++;
        cleaning.freedBytes += bytes;
        await coordinator?.remove([path]);
      }
    }
    for await (const { run, path, bytes } of deadMenders(storage, processes)) {
      cleaning.files++;
      cleaning.freedBytes += bytes;
      await coordinator?.remove([path], run);
    }
    const standing = await standingPlan(storage, sealed.standing);
    await cleanLeftovers(dependencies, location, standing, coordinator, cleaning);
  } finally {
    await coordinator?.end();
  }
  return cleaning;
}

/** True if no retry can need the input: no row failed, and no answer was cut. */
async function isInputDone(storage: Storage, { rows, tasks }: Manifest): Promise<boolean> {
  if (rows.failed > 0) return false;
  for (const task of tasks) if ((await cutRows(storage, task)).length > 0) return false;
  return true;
}

/** Removes drafts of killed processes; counts them if no process leads. */
async function cleanLeftovers(
  { openStorage }: RunDependencies,
  { directory, outside: outsideOf }: RunLocation,
  plan: Plan,
  coordinator: Coordinator | undefined,
  cleaning: Cleaning,
): Promise<void> {
  const [inside, outside] = [openStorage(directory), openStorage(outsideOf)];
  const places: [Storage, string | readonly string[]][] = [
    [inside, ""],
    [outside, outsideFiles(plan)],
  ];
  if (plan.outputs && plan.outputs.base !== "run") {
    const storage = runStorage(inside);
    const target = outputStorage(plan.outputs.base, { storage, outside, openStorage });
    places.push([target, await madeOutputs(storage, plan)]);
  }
  for (const [place, files] of places) {
    for await (const { path, bytes } of staleLeftovers(place, files)) {
      cleaning.files++;
      cleaning.freedBytes += bytes;
      await coordinator?.remove([path], place);
    }
  }
}

/**
 * The seal, once everything that it names is surely there under its published name, and a retry
 * that began in vain.
 */
async function assertSealed(
  dependencies: RunDependencies,
  { directory, outside: outsideOf }: RunLocation,
): Promise<{ sealed: Manifest; retry: Plan | undefined }> {
  const { openStorage } = dependencies;
  const storage = runStorage(openStorage(directory));
  const outside = openStorage(outsideOf);
  const plan = await readPlan(storage);
  const sealed = await completeSeal(
    { storage, outside, openStorage },
    plan,
    dependencies,
    "contents",
  );
  if (!sealed) throw new SluiceError("RUN_OPEN", "only a sealed run can be cleaned");
  const retry = await openRetry(storage, plan);
  if (retry && !(await answeredNothing(storage, retry))) {
    const run = runWords(storage);
    throw new SluiceError("RUN_OPEN", "a retry of it is not finished", {
      hint: `sluice resume ${run} finishes it, sluice retry ${run} --abandon drops it`,
    });
  }
  for (const { part, deadLetters } of sealed.tasks) {
    for (const file of [part, deadLetters]) {
      if (file && (await storage.stat(file.path))?.bytes !== file.bytes) throw missing(file.path);
    }
  }
  for (const file of [sealed.merged, sealed.errorFile]) {
    if (!file) continue;
    const found = await outside.stat(file.path);
    if (found?.bytes !== file.bytes) throw missing(file.path);
  }
  return { sealed, retry };
}

function missing(path: string): SluiceError {
  return new SluiceError("RUN_DAMAGED", "it is missing or has another size", { file: path });
}

/** The needed files below the cleaned prefixes. */
async function keptPaths(storage: Storage, sealed: Manifest): Promise<Set<string>> {
  const first = await readPlan(storage);
  const kept = new Set<string>();
  const cutRetries = new Set<number>();
  const retries = sealed.retries?.map(({ generation }) => generation) ?? [];
  for (const generation of [1, ...retries]) {
    const { tasks, whole, where } = await readPlan(storage, generation);
    kept.add(planPathOf(generation));
    for (const { file, index } of [tasks, ...(whole ? [whole.tasks] : [])]) {
      kept.add(file.path).add(index.path);
    }
    if (where === "finish_reason=length") cutRetries.add(generation);
  }
  const { isLines, isParts } = publishedForm(first);
  for (const entry of sealed.tasks) {
    await keepFilesOf(storage, sealed, entry, kept);
    // Published lines, in parts or in one file, have a name there.
    if (entry.source && !(isLines && (isParts || first.mergedFile !== null))) {
      kept.add(entry.source.path);
    }
    if (entry.lineCounts) kept.add(entry.lineCounts.path);
    for (const { commit, generation } of entry.retried ?? []) {
      const again = await readJson<Commit>(storage, commit.path);
      for (const file of [again?.cutRows, again?.ids]) if (file) kept.add(file.path);
      // Rows in it kept their answer, which is still cut.
      if (again?.deadLetters && cutRetries.has(generation)) kept.add(again.deadLetters.path);
    }
  }
  return kept;
}

/** The small files of a task's first commit that later retries and verifications read. */
async function keepFilesOf(
  storage: Storage,
  { runId }: Manifest,
  { task, attempt, generation = 1, commit }: Manifest["tasks"][number],
  kept: Set<string>,
): Promise<void> {
  if (generation === 1) {
    const { ids, cutRows, rowHashes } = attemptPaths(task, { runId, generation }, attempt);
    kept.add(ids).add(cutRows).add(rowHashes);
    return;
  }
  const own = await readJson<Commit>(storage, commit.path);
  for (const file of [own?.ids, own?.cutRows, own?.rowHashes]) if (file) kept.add(file.path);
}

/** All that is needed to make views of the results again. */
function* sourcesOf(sealed: Manifest): Generator<string> {
  yield* publishedPaths(sealed);
  for (const { source } of sealed.tasks) if (source) yield source.path;
  for (const path of [sealed.mergedSource, sealed.errorSource]) if (path !== undefined) yield path;
}

/** Other names of published files: publishing is linking. */
function publishedPaths({ runId, tasks }: Manifest): Set<string> {
  const published = new Set<string>();
  for (const { task, attempt, part, source, encoded, deadLetters, letters, retried } of tasks) {
    // Version 0.1.0 names neither source nor letters.
    const own = retried ? undefined : attemptPaths(task, { runId, generation: 1 }, attempt);
    const paths = [part && (encoded ?? source?.path ?? own?.part)];
    if (deadLetters) paths.push(letters ?? own?.deadLetters);
    for (const path of paths) if (path) published.add(path);
  }
  return published;
}
