import type { RandomReader, Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import { limits } from "../../foundation/limits.ts";

/** A line without its end; the last one of a file may lack an end. */
export interface StoredLine {
  text: string;
  endsInNewline: boolean;
}

/** The lines of an open file in order. Memory holds one chunk and one line. */
export async function* linesOf(reader: RandomReader): AsyncGenerator<StoredLine> {
  for await (const { texts, endInNewline } of batchesOf(reader)) {
    for (const text of texts) yield { text, endsInNewline: endInNewline };
  }
}

/** The lines of a stored file in order, without their ends. */
export async function* readLines(
  storage: Pick<Storage, "open">,
  path: string,
): AsyncGenerator<string> {
  for await (const texts of readLineBatches(storage, path)) yield* texts;
}

/** The lines of a stored file in order, several at a time. */
export async function* readLineBatches(
  storage: Pick<Storage, "open">,
  path: string,
): AsyncGenerator<readonly string[]> {
  const reader = await storage.open(path);
  try {
    for await (const { texts } of batchesOf(reader)) yield texts;
  } finally {
    await reader.close();
  }
}

/** A file, and the checksum that its content must have. */
interface RecordedFile {
  path: string;
  sha256: string;
}

/**
 * The same of a file that must still be as it was recorded. The checksum is known at the end: until
 * then, nothing that is made from the lines may count.
 *
 * @throws SluiceError `RUN_DAMAGED`, at the end, if the content is another.
 */
export async function* recordedLineBatches(
  storage: Pick<Storage, "open">,
  { path, sha256 }: RecordedFile,
): AsyncGenerator<readonly string[]> {
  const digest = sha256Stream();
  const reader = await storage.open(path);
  try {
    const batches = batchesOf(reader, (chunk) => digest.update(chunk));
    for await (const { texts } of batches) yield texts;
  } finally {
    await reader.close();
  }
  if (digest.digest("hex") === sha256) return;
  const problem = "its content is not what was recorded (checksum differs)";
  throw new SluiceError("RUN_DAMAGED", problem, { file: path });
}

/** The lines of such a file, one by one. */
export async function* recordedLines(
  storage: Pick<Storage, "open">,
  file: RecordedFile,
): AsyncGenerator<string> {
  for await (const texts of recordedLineBatches(storage, file)) yield* texts;
}

/** Lines of one chunk, or the rest after the last line end. */
async function* batchesOf(
  reader: RandomReader,
  onChunk: (chunk: Uint8Array) => void = () => {},
): AsyncGenerator<{ texts: string[]; endInNewline: boolean }> {
  const decoder = new TextDecoder();
  // New memory for each read would wait for the garbage collector.
  const memory = Buffer.allocUnsafeSlow(Math.min(limits.readChunkBytes, reader.bytes));
  let pending = "";
  for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
    const chunk = reader.readInto
      ? memory.subarray(0, await reader.readInto(memory, offset))
      : await reader.read(offset, limits.readChunkBytes);
    onChunk(chunk);
    const texts = (pending + decoder.decode(chunk, { stream: true })).split("\n");
    pending = texts.pop()!;
    yield { texts, endInNewline: true };
  }
  if (pending !== "") yield { texts: [pending], endInNewline: false };
}

/** A stored file from its byte `start`, in pieces of limited size. */
export async function* fileChunks(
  storage: Storage,
  path: string,
  signal?: AbortSignal,
  start = 0,
): AsyncGenerator<Uint8Array> {
  const reader = await storage.open(path);
  try {
    for (let offset = start; offset < reader.bytes && !signal?.aborted; ) {
      const chunk = await reader.read(offset, limits.readChunkBytes);
      if (chunk.length === 0) return;
      yield chunk;
      offset += chunk.length;
    }
  } finally {
    await reader.close();
  }
}
