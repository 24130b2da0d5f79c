import type { RandomReader, Storage } from "../data/storage/storage.ts";
import { limits } from "../foundation/limits.ts";

/** A line without its end; the last of a file may lack one. */
export interface StoredLine {
  text: string;
  endsInNewline: boolean;
}

/** The lines of an open file in order. Memory holds one chunk and one line. */
export async function* linesOf(reader: RandomReader): AsyncGenerator<StoredLine> {
  const decoder = new TextDecoder();
  let pending = "";
  for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
    const chunk = await reader.read(offset, limits.readChunkBytes);
    const parts = (pending + decoder.decode(chunk, { stream: true })).split("\n");
    pending = parts.pop()!;
    for (const text of parts) yield { text, endsInNewline: true };
  }
  if (pending !== "") yield { text: pending, endsInNewline: false };
}

/** The lines of a stored file in order, without their ends. */
export async function* readLines(storage: Storage, path: string): AsyncGenerator<string> {
  const reader = await storage.open(path);
  try {
    for await (const { text } of linesOf(reader)) yield text;
  } finally {
    await reader.close();
  }
}
