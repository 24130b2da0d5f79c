import { readdir, readFile, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { jsonObjectIn } from "../../foundation/json.ts";
import { ifThere, systemCode } from "../../foundation/system-errors.ts";
import { folderBytes } from "./folder-size.ts";
import type { ModelReference } from "./model-reference.ts";
import { fileBytes } from "./part-file.ts";

/** The cache's record of a model. Stored as `model.json` beside the file. */
export interface CacheRecord {
  /** The name by which it was requested. */
  name: string;
  file: string;
  bytes: number;
  sha256: string;
  /** `hub`, `pypi`, `path` or `url`. */
  source: string;
}

/** A model that can be downloaded: anything except a plain path. */
export type RemoteReference = Exclude<ModelReference, { kind: "path" }>;

/** The places of one model's files in the cache. */
export interface CachePlace {
  directory: string;
  file: string;
  record: string;
  /** Held while the model is fetched or removed; outside the directory, which may be removed. */
  lock: string;
  /** The catalog's digest; a cached file with another one does not count. */
  sha256?: string;
}

/** The folder of all models. */
export function modelsDirectory(homeDirectory: string): string {
  return join(homeDirectory, "models");
}

/** The place of a model, whether it exists or not: by name for the catalog, else by digest. */
export function cachePlace(homeDirectory: string, reference: RemoteReference): CachePlace {
  const folder =
    reference.kind === "catalog"
      ? reference.name
      : sha256Hex(canonicalName(reference)).slice(0, 16);
  const file = reference.kind === "catalog" ? reference.entry.file : reference.file;
  const directory = join(modelsDirectory(homeDirectory), folder);
  return {
    directory,
    file: join(directory, file.split("/").at(-1)!),
    record: join(directory, "model.json"),
    lock: `${directory}.lock`,
    ...(reference.kind === "catalog" ? { sha256: reference.entry.sha256 } : {}),
  };
}

function canonicalName(reference: RemoteReference): string {
  if (reference.kind !== "hub") return reference.name;
  return `hf:${reference.repository}@${reference.revision}/${reference.file}`;
}

/** The record of a complete model in the cache; undefined if it is missing or incomplete. */
export async function readCached(place: CachePlace): Promise<CacheRecord | undefined> {
  const record = await readRecord(place.record);
  if (record === undefined || record.sha256 !== (place.sha256 ?? record.sha256)) return undefined;
  return (await fileBytes(place.file)) === record.bytes ? record : undefined;
}

async function readRecord(path: string): Promise<CacheRecord | undefined> {
  const text = await ifThere(readFile(path, "utf8"));
  // A damaged record counts as none: the model is fetched again.
  return text === undefined ? undefined : (jsonObjectIn(text) as CacheRecord | undefined);
}

/** Makes a finished `.part` file the model, and writes its record. */
export async function publish(place: CachePlace, part: string, record: CacheRecord): Promise<void> {
  await rename(part, place.file);
  const temporary = `${place.record}.new`;
  await writeFile(temporary, `${JSON.stringify(record, null, 2)}\n`);
  await rename(temporary, place.record);
}

/** All models in the cache, sorted by name. */
export async function listCached(
  homeDirectory: string,
): Promise<{ record: CacheRecord; path: string }[]> {
  const root = modelsDirectory(homeDirectory);
  const entries = (await ifThere(readdir(root, { withFileTypes: true }))) ?? [];
  const found: { record: CacheRecord; path: string }[] = [];
  for (const entry of entries) {
    const folder = join(root, entry.name);
    const record = entry.isDirectory() && (await readRecord(join(folder, "model.json")));
    if (!record) continue;
    const path = join(folder, record.file);
    if ((await fileBytes(path)) === record.bytes) found.push({ record, path });
  }
  return found.sort((a, b) => (a.record.name < b.record.name ? -1 : 1));
}

/** Removes the folder of a model that was never fetched. */
export async function tidyPlace(place: CachePlace): Promise<void> {
  try {
    await rmdir(place.directory);
  } catch (error) {
    if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes(systemCode(error) ?? "")) throw error;
  }
}

/** Removes a model's files, also those of an interrupted download; returns the freed bytes. */
export async function clearPlace(place: CachePlace): Promise<number> {
  const bytes = await folderBytes(place.directory);
  await rm(place.directory, { recursive: true, force: true });
  return bytes;
}

/** Faults of a folder that another folder does not have. */
const faultsOfPlaces = ["EACCES", "EPERM", "EROFS", "ENOTDIR", "EEXIST"];

/** Names the refusal of the file system while the cache was read or written. */
export function cacheError(error: unknown, directory: string): unknown {
  const { code, syscall, path = directory } = error as NodeJS.ErrnoException;
  if (error instanceof SluiceError || syscall === undefined || code === undefined) return error;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new SluiceError("STORE_FULL", directory, { cause: error });
  }
  const hint = "set SLUICE_HOME to a folder that can be read and written";
  return new SluiceError("STORE_FAILED", `${path}: ${code}`, {
    cause: error,
    ...(faultsOfPlaces.includes(code) && { hint }),
  });
}
