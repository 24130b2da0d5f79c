import { basename } from "node:path";
import { Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import type { ErrorCode } from "../foundation/error-table.ts";
import { SluiceError } from "../foundation/errors.ts";
import { decoding } from "./decoding.ts";
import { forwardReader, piecesOf } from "./forward-reader.ts";
import type { FileForm } from "./row.ts";
import type { RandomReader } from "./storage/storage.ts";

/** A compression of whole files, recognized by the file's ending. */
export interface CompressedFormat {
  readonly name: string;
  readonly ending: string;
  create(): Transform & { bytesWritten: number };
  /** How to treat bytes after the end of a compressed stream. */
  readonly rest: "handled" | "another" | "damage";
}

const compressions: readonly CompressedFormat[] = [
  { name: "gzip", ending: ".gz", create: () => zlib.createGunzip(), rest: "handled" },
  // Node's decoder stops after the first frame if the next one is in the same chunk.
  { name: "zstd", ending: ".zst", create: () => zlib.createZstdDecompress(), rest: "another" },
  { name: "brotli", ending: ".br", create: () => zlib.createBrotliDecompress(), rest: "damage" },
];

/** Endings of compressed files, each with its dot. */
export const compressionEndings: readonly string[] = compressions.map(({ ending }) => ending);

/** The compression of a file, by the last ending of its name; undefined if there is none. */
export function compressionOf(path: string): CompressedFormat | undefined {
  const name = fileNameOf(path);
  return compressions.find(({ ending }) => name.endsWith(ending));
}

/**
 * The content of a file for its format: decompressed and as UTF-8. A file that needs neither gives
 * `reader` itself. Closing the result leaves `reader` open.
 *
 * @param form how the job says that the file is written.
 * @param code of the error if the file is truncated or damaged.
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

/** A file's name in lower case; of a web address, without the query. */
export function fileNameOf(path: string): string {
  const plain = /^https?:/.test(path) ? path.replace(/[?#].*$/, "") : path;
  return basename(plain).toLowerCase();
}

/**
 * Reads the content of a compressed file, forward only; see `forwardReader`. Closing the result
 * leaves `reader` open.
 *
 * @param code of the error if the file is truncated or damaged.
 */
export function decompressing(
  reader: RandomReader,
  file: string,
  compression: CompressedFormat,
  code: ErrorCode = "INPUT_UNREADABLE",
): RandomReader {
  return forwardReader(() => decompressed(reader, file, compression, code));
}

async function* decompressed(
  reader: RandomReader,
  file: string,
  compression: CompressedFormat,
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

/** The output of `stream` for the bytes of the file from `start` on. */
async function* throughStream(
  reader: RandomReader,
  start: number,
  stream: Transform,
): AsyncGenerator<Buffer> {
  const source = Readable.from(piecesOf(reader, start));
  source.on("error", (error) => stream.destroy(error));
  // The stream may emit an error once more after its reader has stopped.
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
  compression: CompressedFormat;
  code: ErrorCode;
  /** Bytes of the file that were decompressed. */
  at: number;
  /** Bytes of content that came out of them. */
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
