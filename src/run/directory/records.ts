import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";

/** Reads of a record after an unclear create. */
const maxReadBacks = 5;

/** The record at `path`, or undefined if there is none. */
export async function readJson<T>(
  storage: Pick<Storage, "read">,
  path: string,
): Promise<T | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = await storage.read(path);
  } catch (error) {
    if (asSluiceError(error).code === "NOT_FOUND") return undefined;
    throw error;
  }
  try {
    return JSON.parse(Buffer.from(bytes).toString()) as T;
  } catch (cause) {
    throw new SluiceError("RUN_DAMAGED", "no JSON", { file: path, cause });
  }
}

/** A record as it is written: one line of JSON. */
export function recordBytes(record: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(record)}\n`);
}

/**
 * Creates a record that only one creator can create, and says whose it is. Unless the create
 * clearly succeeded, the record is read back: a store may lose the reply to a create that it
 * carried out, so neither an error nor "exists" says whose record it is.
 *
 * @param idOf reads the creator's id from a record.
 * @returns the record that stands now, and whether it is ours.
 * @throws SluiceError of the storage if it stays unclear after `maxReadBacks` reads.
 */
export async function createOnce<T>(
  storage: Pick<Storage, "createIfAbsent" | "read">,
  path: string,
  record: T,
  idOf: (record: T) => string,
): Promise<{ won: boolean; record: T }> {
  let failure: unknown;
  for (let reads = 0; reads < maxReadBacks; reads++) {
    try {
      const outcome = await storage.createIfAbsent(path, recordBytes(record));
      if (outcome === "created") return { won: true, record };
    } catch (error) {
      failure = error;
    }
    const { code } = asSluiceError(failure);
    const standing = await readJson<T>(storage, path).catch((error: unknown) => {
      failure = error;
    });
    if (standing) return { won: idOf(standing) === idOf(record), record: standing };
    if (code === "STORE_UNSUITABLE" || code === "STORE_FULL") throw failure;
  }
  throw failure ?? new SluiceError("STORE_FAILED", `cannot create ${path}`);
}
