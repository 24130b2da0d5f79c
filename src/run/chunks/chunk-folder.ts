import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { staleLeftovers } from "../directory/leftovers.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";

export interface ChunkFile {
  rows: number;
  bytes: number;
  sha256: string;
}

/**
 * The record of a folder of chunks: which files in it are ours, and which input they were cut from.
 * It is written before the first chunk, and completed after the last.
 */
export interface ChunkRecord {
  version: 1;
  /** Digest of the request: input, sizes and form. */
  request: string;
  isComplete: boolean;
  /** File extension of the chunks, such as `.jsonl`. */
  ending: string;
  /** Number of chunks, also while they are being written. */
  chunks: number;
  /** Number of lists of shares; 0 = none. */
  workers: number;
  /** Empty until the record is complete. */
  files: ChunkFile[];
}

const recordPath = "_chunks.json";
/** The list of all chunks, in order. */
export const metadataPath = "metadata.txt";
const chunkPrefix = "part_";
/** Folder of the lists of shares. */
const shareFolder = "workers/";

/** The name of chunk `index`, from 0. */
export function chunkPath(index: number, ending: string): string {
  return `${chunkPrefix}${index}${ending}`;
}

/** The name of the list of worker `index`'s chunks, from 0. */
export function sharePath(index: number): string {
  return `${shareFolder}${index}.txt`;
}

/** The chunk's path from the folder of the lists of shares. */
export function fromShare(path: string): string {
  return `../${path}`;
}

/** Every file that a record names, except itself. */
export function* filesOf({ chunks, ending, workers }: ChunkRecord): Generator<string> {
  yield metadataPath;
  for (let index = 0; index < workers; index++) yield sharePath(index);
  for (let index = 0; index < chunks; index++) yield chunkPath(index, ending);
}

/**
 * The folder's record, if `writeChunks` made it.
 *
 * @throws SluiceError `RUN_DAMAGED` if the record is not JSON.
 */
export async function readRecord(storage: Storage): Promise<ChunkRecord | undefined> {
  return await readJson<ChunkRecord>(storage, recordPath);
}

/** True if every chunk of a complete record is there with its size. */
export async function isWhole(storage: Storage, record: ChunkRecord): Promise<boolean> {
  if (!record.isComplete) return false;
  const sizes = new Map<string, number>();
  for await (const { path, bytes } of storage.list(chunkPrefix)) sizes.set(path, bytes);
  const isThere = ({ bytes }: ChunkFile, index: number) =>
    sizes.get(chunkPath(index, record.ending)) === bytes;
  if (!record.files.every(isThere)) return false;
  for (let index = 0; index < record.workers; index++) {
    if (!(await storage.stat(sharePath(index)))) return false;
  }
  return (await storage.stat(metadataPath)) !== undefined;
}

/**
 * Refuses a folder with files that have names of chunks and are not in `own`: they would be
 * replaced, or taken for chunks.
 *
 * @throws SluiceError `OUTPUT_OCCUPIED` with the first of them.
 */
export async function assertFree(storage: Storage, own?: ChunkRecord): Promise<void> {
  const known = new Set(own ? filesOf(own) : []);
  const isStranger = (path: string) => !known.has(path) && isChunkName(path);
  for (const prefix of [chunkPrefix, shareFolder, metadataPath]) {
    for await (const { path } of storage.list(prefix)) {
      if (!isStranger(path)) continue;
      const hint = "move it, or name another --output: only what sluice shard wrote is replaced";
      throw new SluiceError("OUTPUT_OCCUPIED", `${path} is in ${storage.location}`, { hint });
    }
  }
}

function isChunkName(path: string): boolean {
  return path === metadataPath || /^part_\d+\.[^/]+$|^workers\/\d+\.txt$/.test(path);
}

/**
 * Reserves the folder for a cut, before its first file is written.
 *
 * @param standing the present record, to be replaced.
 * @throws SluiceError `OUTPUT_OCCUPIED` if another cut was faster.
 */
export async function claim(
  storage: Storage,
  record: ChunkRecord,
  standing: ChunkRecord | undefined,
): Promise<void> {
  if (standing) {
    // The record is removed last: until then it names the files to remove.
    for (const path of filesOf(standing)) await storage.remove(path);
    await removeLeftovers(storage);
    return await storage.replace(recordPath, recordBytes(record));
  }
  const { won } = await createOnce(storage, recordPath, record, ({ request }) => request);
  if (!won) throw new SluiceError("OUTPUT_OCCUPIED", `another cut began in ${storage.location}`);
}

/** Removes drafts of a cut that was killed long ago. */
async function removeLeftovers(storage: Storage): Promise<void> {
  for (const prefix of [recordPath, metadataPath, shareFolder, chunkPrefix]) {
    for await (const { path } of staleLeftovers(storage, prefix)) await storage.remove(path);
  }
}

/** Records that all files are there. */
export async function complete(storage: Storage, record: ChunkRecord): Promise<void> {
  await storage.replace(recordPath, recordBytes(record));
}

/** Removes all files of a failed cut, its record last. */
export async function abandon(storage: Storage, record: ChunkRecord): Promise<void> {
  for (const path of filesOf(record)) await storage.remove(path);
  await storage.remove(recordPath);
}
