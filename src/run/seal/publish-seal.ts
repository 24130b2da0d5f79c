import { removeAll } from "../../data/storage/remove-all.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { unlessCleaned } from "../attempt/publish.ts";
import { asMender, type Mender } from "../coordinate/menders.ts";
import type { FileRecord } from "../directory/file-record.ts";
import {
  deadLetterPrefix,
  manifestPathOf,
  partPrefix,
  successPath,
  taskOfResult,
} from "../directory/layout.ts";
import { fileChunks, readLines } from "../directory/lines.ts";
import { assertStands } from "../directory/run-storage.ts";
import { writeErrorFile } from "../openai-batch/error-file.ts";
import { writeWhole } from "../output/hashed-file.ts";
import { type OutputPlaces, outputStorage } from "../output/plan-outputs.ts";
import { mergeFile, mergeParts } from "../output/publish-results.ts";
import { publishedForm } from "../output/published-form.ts";
import { type WholeOutput, writeOutputs } from "../output/write-outputs.ts";
import { type Plan, partDigits, readPlan, standingPlan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { lookAtFile } from "./fingerprint.ts";
import type { Manifest } from "./manifest.ts";
import { manifestOf, readSeals, type Seal, successBytes } from "./seals.ts";

/** Files to publish or remove at once: most of the time is a wait for the disk. */
export const filesAtOnce = 128;

/**
 * How published files are checked before they are made again: by names and sizes, or by their whole
 * content.
 */
export type ViewLook = "sizes" | "contents";

/**
 * Makes a seal's files visible under the names that people and other programs know, and last
 * `_SUCCESS`. These are views of the seal: a process that finds one in a different state makes it
 * again, because a delayed process may have written it late. Repetition changes nothing.
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
  const hasCopy = await isCopy(storage, path, seal.manifest!);
  if (!hasCopy) await storage.publish(seal.manifest!.path, path);
  if (!(await isSuccessOf(storage, seal, path))) {
    await storage.replace(successPath, successBytes(seal, path));
  }
  const { sealed } = await readSeals(storage, seal);
  // A newer seal has other results, which this process may have overwritten.
  if (sealed && sealed.generation > seal.generation) {
    await publishNewestSeal(places, seal, "contents");
  }
}

/**
 * Publishes the rest of the newest seal: its creator may have stopped before that, or an older
 * process has overwritten a view of it since. For the process that leads the run.
 *
 * @returns its manifest, or undefined if the run is not sealed.
 */
export async function publishNewestSeal(
  places: OutputPlaces,
  of: Pick<Plan, "runId">,
  look: ViewLook,
): Promise<Manifest | undefined> {
  const newest = await newestSeal(places.storage, of);
  if (newest?.hasSources) await publishSeal(places, newest.seal, newest.manifest, look);
  return newest?.manifest;
}

/**
 * The same for every process: it changes nothing if everything is right, and then needs only read
 * access.
 */
export async function completeSeal(
  places: OutputPlaces,
  of: Pick<Plan, "runId">,
  mender: Mender,
  look: ViewLook = "sizes",
): Promise<Manifest | undefined> {
  const newest = await newestSeal(places.storage, of);
  const isDone = look === "sizes" && newest && (await isPublished(places, newest));
  if (!newest?.hasSources || isDone) return newest?.manifest;
  return await asMender(places.storage, mender, () => publishNewestSeal(places, of, look));
}

interface NewestSeal {
  seal: Seal;
  manifest: Manifest;
  /** An earlier version of Sluice sealed without a record, and named no files to publish from. */
  hasSources: boolean;
}

async function newestSeal(
  storage: Storage,
  of: Pick<Plan, "runId">,
): Promise<NewestSeal | undefined> {
  const { sealed: seal } = await readSeals(storage, of);
  if (!seal) return undefined;
  return { seal, manifest: await manifestOf(storage, seal), hasSources: seal.by !== "" };
}

async function isPublished(
  { storage, outside }: OutputPlaces,
  { seal, manifest }: NewestSeal,
): Promise<boolean> {
  const { publish, remove } = await viewsAmiss(storage, manifest, "sizes");
  if (publish.length + remove.length > 0) return false;
  for (const file of [manifest.merged, manifest.errorFile]) {
    if (file && !(await stands(outside, file, "sizes"))) return false;
  }
  const path = manifestPathOf(seal.generation);
  if (!(await isCopy(storage, path, seal.manifest!))) return false;
  return await isSuccessOf(storage, seal, path);
}

async function isSuccessOf(storage: Storage, seal: Seal, path: string): Promise<boolean> {
  const standing = await storage.read(successPath).catch(() => undefined);
  return standing !== undefined && successBytes(seal, path).equals(standing);
}

async function isCopy(storage: Storage, path: string, { sha256 }: FileRecord): Promise<boolean> {
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
  // Results of the run that replaced it have the same names.
  await assertStands(storage);
  await mendParts(storage, manifest, look);
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
  await writeOutputs(context, run, { tasks, columns, assertLeads: async () => {} });
}

/** Damaged parts and dead letters, and those that a late process published. */
async function viewsAmiss(
  storage: Storage,
  { tasks, outputs }: Manifest,
  look: ViewLook,
): Promise<{ publish: { from: string; to: string }[]; remove: string[] }> {
  // Names of files by input or by row may begin like those of parts.
  const prefixes = outputs ? [deadLetterPrefix] : [partPrefix, deadLetterPrefix];
  const found = new Map<string, number>();
  for (const prefix of prefixes) {
    for await (const { path, bytes } of storage.list(prefix)) found.set(path, bytes);
  }
  const publish: { from: string; to: string }[] = [];
  for (const { part, source, encoded, deadLetters, letters } of tasks) {
    const views = [
      { from: encoded ?? source?.path, view: part },
      { from: letters, view: deadLetters },
    ];
    for (const { from, view } of views) {
      if (!view) continue;
      const isAlike = look === "sizes" && found.get(view.path) === view.bytes;
      found.delete(view.path);
      if (from !== undefined && !isAlike) publish.push({ from, to: view.path });
    }
  }
  if (found.size === 0) return { publish, remove: [] };
  const first = await readPlan(storage);
  const { ending } = publishedForm(first);
  const isOurs = (path: string) => taskOfResult(path, partDigits(first), ending) !== undefined;
  // Files of other names are the user's.
  return { publish, remove: [...found.keys()].filter(isOurs) };
}

async function mendParts(storage: Storage, manifest: Manifest, look: ViewLook): Promise<void> {
  const { publish, remove } = await viewsAmiss(storage, manifest, look);
  await eachAtOnce(publish, filesAtOnce, ({ from, to }) =>
    unlessCleaned(storage, to, () => storage.publish(from, to)),
  );
  await removeAll(storage, remove);
}

async function stands(storage: Storage, file: FileRecord, look: ViewLook): Promise<boolean> {
  if ((await storage.stat(file.path))?.bytes !== file.bytes) return false;
  return look === "sizes" || (await lookAtFile(storage, file)).problem === undefined;
}

/** True if all result files by input or by row agree with their list. */
async function outputsStand(
  places: OutputPlaces,
  { outputs }: Plan,
  list: FileRecord,
): Promise<boolean> {
  const { storage } = places;
  if (!(await stands(storage, list, "contents"))) return false;
  const target = outputStorage(outputs!.base, places);
  for await (const line of readLines(storage, list.path)) {
    if (!(await stands(target, JSON.parse(line) as WholeOutput, "contents"))) return false;
  }
  return true;
}

/** The single file of a run without retries, from the lines of its tasks. */
async function makeMerged(
  { storage, outside }: OutputPlaces,
  plan: Plan,
  { tasks, columns = [] }: Manifest,
  name: string,
): Promise<void> {
  const { isLines, format } = publishedForm(plan);
  const assertLeads = async () => {};
  if (isLines) await mergeParts(storage, outside, name, { tasks, assertLeads });
  else {
    await mergeFile(storage, outside, name, { tasks, encoding: { format, columns }, assertLeads });
  }
}

async function copyOut(storage: Storage, from: string, outside: Storage, to: string) {
  await writeWhole(await outside.writer(to), async (writer) => {
    for await (const chunk of fileChunks(storage, from)) await writer.write(chunk);
  });
}
