import { basename } from "node:path";
import { Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import type { ErrorCode } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import { decoding } from "./decoding.ts";
import { forwardReader, piecesOf } from "./forward-reader.ts";
import type { FileForm } from "./row.ts";
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
 * What a file holds, as `format` reads it; where it is not compressed, and UTF-8, `reader` itself.
 * Closing it leaves `reader` open.
 *
 * @param form what the job says of how the file is written.
 * @param code of the error where the file is cut off or damaged.
 */
export function contentOf(
  reader: RandomReader,
  file: string,
  format: { takesBytesAsTheyAre?: boolean },
  code: ErrorCode,
  { encoding }: FileForm = {},
): RandomReader {
  const compression = format.takesBytesAsTheyAre ? undefined : compressionOf(file);
  const bytes = compression ? decompressing(reader, file, compression, code) : reader;
  if (encoding === undefined) return bytes;
  const text = decoding(bytes, file, encoding, code);
  const close = async () => {
    await text.close();
    if (bytes !== reader) await bytes.close();
  };
  return { ...text, close };
}

/** A file's name in lower case, without the query of a web address. */
export function fileNameOf(path: string): string {
  const plain = /^https?:/.test(path) ? path.replace(/[?#].*$/, "") : path;
  return basename(plain).toLowerCase();
}

/**
 * Reads a compressed file as what it holds; see `forwardReader`. Closing it leaves `reader` open.
 *
 * @param code of the error where the file is cut off or damaged.
 */
export function decompressing(
  reader: RandomReader,
  file: string,
  compression: Compression,
  code: ErrorCode = "INPUT_UNREADABLE",
): RandomReader {
  return forwardReader(() => decompressed(reader, file, compression, code));
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
