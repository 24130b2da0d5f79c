import type { RandomReader, Storage } from "../../data/storage/storage.ts";
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

/** Lines of one chunk, or the rest after the last line end. */
async function* batchesOf(
  reader: RandomReader,
): AsyncGenerator<{ texts: string[]; endInNewline: boolean }> {
  const decoder = new TextDecoder();
  // New memory for each read would wait for the garbage collector.
  const memory = Buffer.allocUnsafeSlow(Math.min(limits.readChunkBytes, reader.bytes));
  let pending = "";
  for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
    const chunk = reader.readInto
      ? memory.subarray(0, await reader.readInto(memory, offset))
      : await reader.read(offset, limits.readChunkBytes);
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
