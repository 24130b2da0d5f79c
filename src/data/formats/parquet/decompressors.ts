import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import type { CompressionCodec, Compressors } from "hyparquet";
import { snappyUncompressor } from "hysnappy";
import { lazily } from "../../../foundation/lazily.ts";

/** Every compression of pages but LZO, which no writer of today makes. */
export const supportedCodecs: readonly CompressionCodec[] = [
  "UNCOMPRESSED",
  "SNAPPY",
  "GZIP",
  "ZSTD",
  "BROTLI",
  "LZ4",
  "LZ4_RAW",
];

/** One for all files: each has memory of its own, which the garbage collector cannot see. */
const snappy = lazily(snappyUncompressor);

/** What decompresses pages of these codecs; Node's own where it has one. */
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

/** A few bytes can be made to hold gigabytes. */
function upTo(bytes: number): { maxOutputLength: number } {
  return { maxOutputLength: Math.max(1, bytes) };
}
