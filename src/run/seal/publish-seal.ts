import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { deadLetterPrefix, manifestPathOf, partPrefix, successPath } from "../layout.ts";
import { fileChunks, readLines } from "../lines.ts";
import { writeErrorFile } from "../openai-batch/error-file.ts";
import { type OutputPlaces, outputStorage } from "../output/plan-outputs.ts";
import { mergeFile, mergeParts } from "../output/publish-results.ts";
import { publishedForm } from "../output/published-form.ts";
import { type WholeOutput, writeOutputs } from "../output/write-outputs.ts";
import { type Plan, type PlannedFile, readPlan } from "../plan.ts";
import type { RunContext } from "../run-context.ts";
import { assertStands } from "../run-storage.ts";
import { lookAtFile } from "./fingerprint.ts";
import type { Manifest } from "./manifest.ts";
import { manifestOf, readSeals, type Seal, successBytes } from "./seals.ts";
import { standingPlan } from "./standing-plan.ts";

/** Files published at once: most of the time is a wait for the disk. */
const filesAtOnce = 128;

/**
 * How closely published files are looked at before they are made again: by names and sizes, or by
 * all that they hold.
 */
export type ViewLook = "sizes" | "contents";

/**
 * Makes what a seal names visible under the names that people and other programs know, and last
 * `_SUCCESS`. These are views of the seal: whoever finds one that is not as the seal says makes it
 * again, for a process that slept may have written it late. Doing it twice changes nothing.
 */
export async function publishSeal(
  places: OutputPlaces,
  seal: Seal,
  manifest: Manifest,
  look: ViewLook,
): Promise<void> {
  const { storage } = places;
  await mendResults(places, manifest, look);
  const path = manifestPathOf(seal.generation);
  const success = successBytes(seal, path);
  const hasCopy = await isCopy(storage, path, seal.manifest!);
  if (!hasCopy) await storage.publish(seal.manifest!.path, path);
  const standing = await storage.read(successPath).catch(() => undefined);
  if (!standing || !success.equals(standing)) await storage.replace(successPath, success);
  const { sealed } = await readSeals(storage, seal);
  // A newer seal has other results, over which this process may have published.
  if (sealed && sealed.generation > seal.generation) await completeSeal(places, seal, "contents");
}

/**
 * Publishes the newest seal as far as it is not: whoever created it may not have come to that, or
 * an older process has overwritten a view of it since.
 *
 * @returns its manifest, or undefined where the run is not sealed.
 */
export async function completeSeal(
  places: OutputPlaces,
  of: Pick<Plan, "runId">,
  look: ViewLook = "sizes",
): Promise<Manifest | undefined> {
  const { sealed } = await readSeals(places.storage, of);
  if (!sealed) return undefined;
  const manifest = await manifestOf(places.storage, sealed);
  // An earlier version of Sluice sealed without a record, and named no files to publish from.
  if (sealed.by !== "") await publishSeal(places, sealed, manifest, look);
  return manifest;
}

async function isCopy(storage: Storage, path: string, { sha256 }: PlannedFile): Promise<boolean> {
  const bytes = await storage.read(path).catch(() => undefined);
  return bytes !== undefined && sha256Hex(bytes) === sha256;
}

async function mendResults(
  places: OutputPlaces,
  manifest: Manifest,
  look: ViewLook,
): Promise<void> {
  const { storage, outside } = places;
  const first = await readPlan(storage);
  // Results of the run that took its place lie under the same names.
  await assertStands(storage);
  await mendParts(places, manifest, look);
  const { merged, mergedSource, errorFile, errorSource, outputs } = manifest;
  if (merged && !(await stands(outside, merged, look))) {
    const make = () => makeMerged(places, first, manifest, merged.path);
    await unlessCleaned(outside, merged.path, () =>
      mergedSource === undefined ? make() : copyOut(storage, mergedSource, outside, merged.path),
    );
  }
  if (errorFile && !(await stands(outside, errorFile, look))) {
    const make = () =>
      writeErrorFile({ storage, plan: first }, outside, errorFile.path, manifest.tasks);
    await unlessCleaned(outside, errorFile.path, () =>
      errorSource === undefined ? make() : copyOut(storage, errorSource, outside, errorFile.path),
    );
  }
  if (!outputs || look === "sizes") return;
  const run = await standingPlan(storage, manifest.standing);
  if (await outputsStand(places, run, outputs.list)) return;
  const { tasks, columns = [], generation } = manifest;
  const context = { ...places, plan: { ...first, generation } } as RunContext;
  await writeOutputs(context, run, { tasks, columns, assertRules: async () => {} });
}

/** Parts and dead letters: those that are not as they should be, and those that nobody knows. */
async function mendParts(
  { storage }: OutputPlaces,
  { tasks, outputs }: Manifest,
  look: ViewLook,
): Promise<void> {
  // Names of files by input or by row may begin as those of parts do.
  const prefixes = outputs ? [deadLetterPrefix] : [partPrefix, deadLetterPrefix];
  const found = new Map<string, number>();
  for (const prefix of prefixes) {
    for await (const { path, bytes } of storage.list(prefix)) found.set(path, bytes);
  }
  let publishing: Promise<void>[] = [];
  for (const { part, source, encoded, deadLetters, letters } of tasks) {
    const views = [
      { from: encoded ?? source?.path, view: part },
      { from: letters, view: deadLetters },
    ];
    for (const { from, view } of views) {
      if (!view) continue;
      const isAlike = look === "sizes" && found.get(view.path) === view.bytes;
      found.delete(view.path);
      if (from === undefined || isAlike) continue;
      publishing.push(unlessCleaned(storage, view.path, () => storage.publish(from, view.path)));
    }
    if (publishing.length < filesAtOnce) continue;
    await Promise.all(publishing);
    publishing = [];
  }
  for (const stranger of found.keys()) publishing.push(storage.remove(stranger));
  await Promise.all(publishing);
}

async function stands(storage: Storage, file: PlannedFile, look: ViewLook): Promise<boolean> {
  if ((await storage.stat(file.path))?.bytes !== file.bytes) return false;
  return look === "sizes" || (await lookAtFile(storage, file)).problem === undefined;
}

/** True where all result files by input or by row are as their list says. */
async function outputsStand(
  places: OutputPlaces,
  { outputs }: Plan,
  list: PlannedFile,
): Promise<boolean> {
  const { storage } = places;
  if (!(await stands(storage, list, "contents"))) return false;
  const target = outputStorage(outputs!.base, places);
  for await (const line of readLines(storage, list.path)) {
    if (!(await stands(target, JSON.parse(line) as WholeOutput, "contents"))) return false;
  }
  return true;
}

/** The one file of a run that was never retried, from the lines of its tasks. */
async function makeMerged(
  { storage, outside }: OutputPlaces,
  plan: Plan,
  { tasks, columns = [] }: Manifest,
  name: string,
): Promise<void> {
  const { isLines, format } = publishedForm(plan);
  const assertRules = async () => {};
  if (isLines) await mergeParts(storage, outside, name, { tasks, assertRules });
  else {
    await mergeFile(storage, outside, name, { tasks, encoding: { format, columns }, assertRules });
  }
}

/** After `sluice clean` a file has its published name alone. */
async function unlessCleaned(
  target: Storage,
  path: string,
  publish: () => Promise<unknown>,
): Promise<void> {
  try {
    await publish();
  } catch (error) {
    const isPublished = asSluiceError(error).code === "NOT_FOUND" && (await target.stat(path));
    if (!isPublished) throw error;
  }
}

async function copyOut(storage: Storage, from: string, outside: Storage, to: string) {
  const writer = await outside.writer(to);
  try {
    for await (const chunk of fileChunks(storage, from)) await writer.write(chunk);
    await writer.close();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}
