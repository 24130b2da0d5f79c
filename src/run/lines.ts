import type { Storage } from "../data/storage/storage.ts";
import { limits } from "../foundation/limits.ts";

/** The lines of a stored file in order, without their ends. Memory holds one chunk and one line. */
export async function* readLines(storage: Storage, path: string): AsyncGenerator<string> {
  const reader = await storage.open(path);
  try {
    const decoder = new TextDecoder();
    let pending = "";
    for (let offset = 0; offset < reader.bytes; offset += limits.readChunkBytes) {
      const chunk = await reader.read(offset, limits.readChunkBytes);
      const parts = (pending + decoder.decode(chunk, { stream: true })).split("\n");
      pending = parts.pop()!;
      yield* parts;
    }
    if (pending !== "") yield pending;
  } finally {
    await reader.close();
  }
}
