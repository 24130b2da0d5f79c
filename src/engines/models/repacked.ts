import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { jsonObjectIn } from "../../foundation/json.ts";
import { folderBytes } from "./folder-size.ts";
import { fileBytes } from "./part-file.ts";

/** A file of weights, as logs and manifests name it. */
export interface WeightsFile {
  file: string;
  sha256: string;
}

/** What a machine made of the source file and of the repacked one. */
export type MeasuredSpeed =
  | { device: "cpu"; tokensPerSecond: { source: number; repacked: number } }
  | { device: "gpu" };

/** What is known of one repacked model; `repack.json` beside its file. */
export interface RepackRecord {
  repackedFrom: WeightsFile;
  /** Absent where no machine gained from it, for then the file is removed again. */
  weights?: WeightsFile & { bytes: number };
  /** By machine, as `machineName` names it. */
  measured: Record<string, MeasuredSpeed>;
}

/** Where a repacked model lies, whether it is there or not. */
export interface RepackPlace {
  directory: string;
  /** Held while the file is made and measured. */
  lock: string;
  /** Path of the new file, named after the source. */
  file: string;
  record: string;
}

/** The folder of all repacked models. */
export function repackedDirectory(homeDirectory: string): string {
  return join(homeDirectory, "repacked");
}

/** The place of what is repacked from the file of that digest to `Q8_0`. */
export function repackPlace(homeDirectory: string, source: WeightsFile): RepackPlace {
  const directory = repackDirectory(homeDirectory, source.sha256);
  return {
    directory,
    lock: `${directory}.lock`,
    file: join(directory, `${basename(source.file, ".gguf")}.repacked-Q8_0.gguf`),
    record: join(directory, "repack.json"),
  };
}

function repackDirectory(homeDirectory: string, sha256: string): string {
  return join(repackedDirectory(homeDirectory), `${sha256}.Q8_0`);
}

/** The record of a place; undefined where there is none, or a damaged one. */
export async function readRepackRecord(place: RepackPlace): Promise<RepackRecord | undefined> {
  try {
    return jsonObjectIn(await readFile(place.record, "utf8")) as RepackRecord | undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Path of the file that a record vouches for; undefined where it is not whole. */
export async function repackedFile(
  place: RepackPlace,
  record: RepackRecord | undefined,
): Promise<string | undefined> {
  if (record?.weights === undefined) return undefined;
  const path = join(place.directory, record.weights.file);
  return (await fileBytes(path)) === record.weights.bytes ? path : undefined;
}

/** Removes what a process that died in the middle left. */
export async function removeLeftovers(place: RepackPlace): Promise<void> {
  const names = await readdir(place.directory);
  const left = names.filter((name) => name.endsWith(partSuffix));
  await Promise.all(left.map((name) => rm(join(place.directory, name), { force: true })));
}

/** What the name of a file ends in while it is written. */
export const partSuffix = ".part";

/** Writes the record of a place, whole or not at all. */
export async function writeRepackRecord(place: RepackPlace, record: RepackRecord): Promise<void> {
  await mkdir(place.directory, { recursive: true });
  const temporary = `${place.record}.new`;
  await writeFile(temporary, `${JSON.stringify(record, null, 2)}\n`);
  await rename(temporary, place.record);
}

/** Removes what was repacked from the file of that digest; gives the bytes that are free again. */
export async function removeRepacked(homeDirectory: string, sha256: string): Promise<number> {
  const directory = repackDirectory(homeDirectory, sha256);
  const bytes = await folderBytes(directory);
  await rm(directory, { recursive: true, force: true });
  return bytes;
}
