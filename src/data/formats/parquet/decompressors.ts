import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import type { CompressionCodec, Compressors } from "hyparquet";
import { snappyUncompressor } from "hysnappy";
import { lazily } from "../../../foundation/lazily.ts";

/** All page compressions except LZO, which current writers do not use. */
export const supportedCodecs: readonly CompressionCodec[] = [
  "UNCOMPRESSED",
  "SNAPPY",
  "GZIP",
  "ZSTD",
  "BROTLI",
  "LZ4",
  "LZ4_RAW",
];

/** One for all files: its memory is invisible to the garbage collector. */
const snappy = lazily(snappyUncompressor);

/** Decompressors for these codecs; those of Node if it has them. */
export async function decompressorsOf(codecs: ReadonlySet<CompressionCodec>): Promise<Compressors> {
  const own: Compressors = {
    ...(codecs.has("SNAPPY") && { SNAPPY: snappy() }),
    GZIP: (input, bytes) => gunzipSync(input, upTo(bytes)),
    ZSTD: (input, bytes) => zstdDecompressSync(input, upTo(bytes)),
    BROTLI: (input, bytes) => brotliDecompressSync(input, upTo(bytes)),
  };
  if (!codecs.has("LZ4") && !codecs.has("LZ4_RAW")) return own;
  const { decompressLz4, decompressLz4Raw } = await import("hyparquet-compressors");
  return { ...own, LZ4: decompressLz4, LZ4_RAW: decompressLz4Raw };
}

/** A few bytes can expand to gigabytes. */
function upTo(bytes: number): { maxOutputLength: number } {
  return { maxOutputLength: Math.max(1, bytes) };
}
