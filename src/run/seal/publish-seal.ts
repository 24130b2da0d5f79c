import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { deadLetterPath, manifestPathOf, partWidth, successPath } from "../layout.ts";
import type { OutputPlaces } from "../output/plan-outputs.ts";
import { type Plan, readPlan } from "../plan.ts";
import { readJson } from "../records.ts";
import type { Manifest, Success } from "./manifest.ts";
import { manifestOf, readSeals, type Seal, successBytes } from "./seals.ts";

/** Files published at once: most of the time is a wait for the disk. */
const filesAtOnce = 128;

/**
 * Makes what a seal names visible under the names that people and other programs know, and last
 * `_SUCCESS`. Anybody may do it, and do it again: it changes nothing then.
 *
 * @param publishes the results too; false where they were published before the seal.
 */
export async function publishSeal(
  places: OutputPlaces,
  seal: Seal,
  manifest: Manifest,
  publishes: boolean,
): Promise<void> {
  const { storage } = places;
  if (publishes) await publishResultsOf(places, await readPlan(storage), manifest);
  const { sealed } = await readSeals(storage, seal);
  // A newer seal has its own; what was published above is its affair to mend.
  if (sealed?.generation !== seal.generation) return;
  const path = manifestPathOf(seal.generation);
  await storage.publish(seal.manifest!.path, path);
  await storage.replace(successPath, successBytes(seal, path));
}

/**
 * Publishes the newest seal, where whoever created it did not come to that.
 *
 * @returns its manifest, or undefined where the run is not sealed.
 */
export async function completeSeal(
  places: OutputPlaces,
  of: Pick<Plan, "runId">,
): Promise<Manifest | undefined> {
  const { storage } = places;
  for (;;) {
    const { sealed } = await readSeals(storage, of);
    if (!sealed) return undefined;
    const manifest = await manifestOf(storage, sealed);
    // An earlier version of Sluice has no other seal.
    if (sealed.by === "") return manifest;
    // Read last: who slept before it sees that a newer seal was published meanwhile.
    const standing = await readJson<Success>(storage, successPath).catch(() => undefined);
    if (standing && standing.generation > sealed.generation) continue;
    const isPublished = standing?.sha256 === sealed.manifest!.sha256;
    if (!isPublished) await publishSeal(places, sealed, manifest, true);
    return manifest;
  }
}

async function publishResultsOf(
  { storage, outside }: OutputPlaces,
  first: Plan,
  { tasks, merged, mergedSource, errorFile, errorSource }: Manifest,
): Promise<void> {
  const width = partWidth(first.tasks.count);
  let publishing: Promise<void>[] = [];
  for (const { task, part, source, encoded, deadLetters, letters } of tasks) {
    const from = encoded ?? source?.path;
    if (part && from !== undefined) publishing.push(publishKept(storage, from, part.path));
    if (deadLetters && letters !== undefined) {
      publishing.push(publishKept(storage, letters, deadLetters.path));
    } else if (!deadLetters) publishing.push(storage.remove(deadLetterPath(task, width)));
    if (publishing.length < filesAtOnce) continue;
    await Promise.all(publishing);
    publishing = [];
  }
  await Promise.all(publishing);
  const copies = [
    { from: mergedSource, to: merged?.path },
    { from: errorSource, to: errorFile?.path },
  ];
  for (const { from, to } of copies) {
    if (from === undefined || to === undefined) continue;
    await unlessCleaned(outside, to, () => copyOut(storage, from, outside, to));
  }
}

function publishKept(storage: Storage, from: string, to: string): Promise<void> {
  return unlessCleaned(storage, to, () => storage.publish(from, to));
}

/** After `sluice clean` a file has its published name alone. */
async function unlessCleaned(
  target: Storage,
  path: string,
  publish: () => Promise<void>,
): Promise<void> {
  try {
    await publish();
  } catch (error) {
    const isPublished = asSluiceError(error).code === "NOT_FOUND" && (await target.stat(path));
    if (!isPublished) throw error;
  }
}

async function copyOut(storage: Storage, from: string, outside: Storage, to: string) {
  const reader = await storage.open(from);
  const writer = await outside.writer(to);
  try {
    for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
      await writer.write(await reader.read(offset, limits.readChunkBytes));
    }
    await writer.close();
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    await reader.close();
  }
}
