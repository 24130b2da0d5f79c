import { basename } from "node:path";
import { Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import type { ErrorCode } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import type { RandomReader } from "./storage/storage.ts";

/** One way of compressing a whole file, known by the file's ending. */
export interface Compression {
  readonly name: string;
  readonly ending: string;
  create(): Transform & { bytesWritten: number };
  /** What follows the end of one compressed stream. */
  readonly rest: "handled" | "another" | "damage";
}

const compressions: readonly Compression[] = [
  { name: "gzip", ending: ".gz", create: () => zlib.createGunzip(), rest: "handled" },
  // Node ends with the first frame where the next one lies in the same piece of input.
  { name: "zstd", ending: ".zst", create: () => zlib.createZstdDecompress(), rest: "another" },
  { name: "brotli", ending: ".br", create: () => zlib.createBrotliDecompress(), rest: "damage" },
];

/** Endings of compressed files, with the dot. */
export const compressionEndings: readonly string[] = compressions.map(({ ending }) => ending);

/** How a file is compressed, by its name's last ending; undefined where it is not. */
export function compressionOf(path: string): Compression | undefined {
  const name = fileNameOf(path);
  return compressions.find(({ ending }) => name.endsWith(ending));
}

/**
 * What a file holds, as `format` reads it; where it is not compressed, `reader` itself. Closing it
 * leaves `reader` open.
 *
 * @param code of the error where the file is cut off or damaged.
 */
export function contentOf(
  reader: RandomReader,
  file: string,
  format: { takesBytesAsTheyAre?: boolean },
  code: ErrorCode,
): RandomReader {
  const compression = format.takesBytesAsTheyAre ? undefined : compressionOf(file);
  return compression ? decompressing(reader, file, compression, code) : reader;
}

/** A file's name in lower case, without the query of a web address. */
export function fileNameOf(path: string): string {
  const plain = /^https?:/.test(path) ? path.replace(/[?#].*$/, "") : path;
  return basename(plain).toLowerCase();
}

/**
 * Reads a compressed file as what it holds. Reads go forward at no cost; one further back starts
 * anew. Its length is not known, so that `bytes` is infinite. Closing it leaves `reader` open.
 *
 * @param code of the error where the file is cut off or damaged.
 */
export function decompressing(
  reader: RandomReader,
  file: string,
  compression: Compression,
  code: ErrorCode = "INPUT_UNREADABLE",
): RandomReader {
  let content = decompressed(reader, file, compression, code);
  /** Where in the content the first of the held bytes lies. */
  let position = 0;
  let held: Buffer = Buffer.alloc(0);
  const startAnew = async () => {
    await content.return(undefined);
    content = decompressed(reader, file, compression, code);
    [position, held] = [0, Buffer.alloc(0)];
  };
  const readAt = async (offset: number, length: number): Promise<Buffer> => {
    if (offset < position) await startAnew();
    const pieces: Buffer[] = [];
    let missing = length;
    while (missing > 0) {
      if (held.length === 0) {
        const { done, value } = await content.next();
        if (done) break;
        held = value;
      }
      const skipped = Math.min(Math.max(0, offset - position), held.length);
      const piece = held.subarray(skipped, skipped + missing);
      if (piece.length > 0) pieces.push(piece);
      missing -= piece.length;
      position += skipped + piece.length;
      held = held.subarray(skipped + piece.length);
    }
    return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  };
  let last: Promise<unknown> = Promise.resolve();
  return {
    bytes: Number.POSITIVE_INFINITY,
    read(offset, length) {
      const reading = last.then(() => readAt(offset, length));
      last = reading.catch(() => {});
      return reading;
    },
    async close() {
      await last;
      await content.return(undefined);
    },
  };
}

async function* decompressed(
  reader: RandomReader,
  file: string,
  compression: Compression,
  code: ErrorCode,
): AsyncGenerator<Buffer, undefined> {
  for (let start = 0, hasMore = true; hasMore; ) {
    const stream = compression.create();
    let bytes = 0;
    try {
      for await (const piece of throughStream(reader, start, stream)) {
        bytes += piece.length;
        yield piece;
      }
    } catch (error) {
      throw damage(error, { file, compression, code, at: start + stream.bytesWritten, bytes });
    }
    start += stream.bytesWritten;
    if (compression.rest === "handled") return;
    hasMore = (await reader.read(start, 1)).length > 0;
    if (hasMore && compression.rest === "damage") {
      throw new SluiceError(code, `bytes follow the end of its ${compression.name}`, { file });
    }
  }
}

/** What `stream` makes of the file from `start` on. */
async function* throughStream(
  reader: RandomReader,
  start: number,
  stream: Transform,
): AsyncGenerator<Buffer> {
  const source = Readable.from(piecesOf(reader, start));
  source.on("error", (error) => stream.destroy(error));
  // An error may come once more after the reading of it has ended.
  stream.on("error", () => {});
  try {
    for await (const piece of source.pipe(stream)) yield piece as Buffer;
  } finally {
    source.destroy();
    stream.destroy();
  }
}

async function* piecesOf(reader: RandomReader, start: number): AsyncGenerator<Uint8Array> {
  for (let offset = start; ; ) {
    const piece = await reader.read(offset, limits.readChunkBytes);
    if (piece.length > 0) yield piece;
    if (piece.length < limits.readChunkBytes) return;
    offset += piece.length;
  }
}

interface Damage {
  file: string;
  compression: Compression;
  code: ErrorCode;
  /** Bytes of the file that were understood. */
  at: number;
  /** Bytes of content that they gave. */
  bytes: number;
}

function damage(error: unknown, { file, compression, code, at, bytes }: Damage): unknown {
  if (error instanceof SluiceError) return error;
  const reason = error as { code?: unknown; message: string };
  const isTorn = reason.code === "Z_BUF_ERROR";
  const what = isTorn
    ? `its ${compression.name} is cut off at byte ${at}, after ${bytes} bytes of content`
    : `its ${compression.name} is damaged near byte ${at}: ${reason.message}`;
  const hint = isTorn
    ? "fetch or make the file again: its end is missing"
    : `fetch or make the file again; if it is not compressed, name it without ${compression.ending}`;
  return new SluiceError(code, what, { file, hint, cause: error });
}
