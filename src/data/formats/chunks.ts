import { SluiceError } from "../../foundation/errors.ts";
import { sha256Stream } from "../../foundation/hashing.ts";
import type { Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";

/** The byte order mark at the start of some UTF-8 files. It belongs to no row. */
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** Length of a byte order mark at the start of `chunk`: 3 or 0. */
export function markBytes(chunk: Buffer): number {
  return chunk.subarray(0, 3).equals(byteOrderMark) ? 3 : 0;
}

/**
 * @param start the first bytes of a text file.
 * @throws SluiceError `INPUT_UNREADABLE` if they are a byte order mark of UTF-16 or UTF-32, as
 *   Excel and the shells of Windows write it: no row of such a file could be read.
 */
export function assertNoUtf16(start: Buffer, file: string): void {
  const mark = start.toString("hex", 0, 2);
  if (mark !== "fffe" && mark !== "feff") return;
  const hint = "set input.encoding to utf-16, or convert the file to UTF-8";
  throw new SluiceError("INPUT_UNREADABLE", "it is UTF-16 text", { file, hint });
}

/**
 * The bytes from `start` to `end` in chunks of `chunkBytes`. Each chunk is read while the previous
 * one is processed. An infinite `end` is the end of the file.
 *
 * @throws SluiceError `INPUT_CHANGED` if the file ends before a finite `end`.
 */
export async function* chunksOf(
  reader: RandomReader,
  file: string,
  range: { start: number; end: number },
  chunkBytes: number,
): AsyncGenerator<Buffer> {
  // The first chunk must hold a complete byte order mark.
  const wantedAt = (offset: number) => Math.min(Math.max(chunkBytes, 3), range.end - offset);
  const request = (offset: number) => {
    const reading = reader.read(offset, wantedAt(offset));
    // A consumer that stops early never awaits it.
    reading.catch(() => {});
    return reading;
  };
  let next = range.start < range.end ? request(range.start) : undefined;
  for (let offset = range.start; next; ) {
    const bytes = await next;
    const isShort = bytes.length < wantedAt(offset);
    if (isShort && Number.isFinite(range.end)) {
      throw new SluiceError("INPUT_CHANGED", "it has become shorter", { file });
    }
    offset += bytes.length;
    next = offset < range.end && !isShort ? request(offset) : undefined;
    if (bytes.length === 0) return;
    yield Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }
}

/**
 * The chunks of a slice. The last one comes only if the slice still has its checksum.
 *
 * @throws SluiceError `INPUT_CHANGED`
 */
export async function* verifiedChunks(
  reader: RandomReader,
  slice: Slice,
  chunkBytes: number,
): AsyncGenerator<Buffer> {
  const { file, start, end } = slice;
  if (reader.bytes < end) throw new SluiceError("INPUT_CHANGED", "it has become shorter", { file });
  const hash = sha256Stream();
  let offset = start;
  for await (const chunk of chunksOf(reader, file, slice, chunkBytes)) {
    hash.update(chunk);
    offset += chunk.length;
    if (offset === end && hash.digest("hex") !== slice.sha256) {
      const place = `bytes ${start} to ${end} have another checksum`;
      throw new SluiceError("INPUT_CHANGED", place, { file });
    }
    yield chunk;
  }
}
