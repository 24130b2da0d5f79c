import { gzipSync, zstdCompressSync } from "node:zlib";
import type { CompressionCodec } from "hyparquet";
import type { Compressors } from "hyparquet-writer/src/types.js";
import { snappyCompressor } from "hysnappy";
import { lazily } from "../../../foundation/lazily.ts";

/** Compression of the pages in a Parquet file. */
export type PageCompression = "snappy" | "gzip" | "zstd" | "none";

/** A compression: its name in the file, and its function. */
export interface PageCodec {
  codec: CompressionCodec;
  compressors: Compressors;
}

/** One for all files: its memory is invisible to the garbage collector. */
const snappy = lazily(snappyCompressor);

/** The codecs for the pages of an output file. */
export const pageCodecs: Record<PageCompression, () => PageCodec> = {
  snappy: () => ({ codec: "SNAPPY", compressors: { SNAPPY: snappy() } }),
  gzip: () => ({ codec: "GZIP", compressors: { GZIP: (page) => gzipSync(page) } }),
  zstd: () => ({ codec: "ZSTD", compressors: { ZSTD: (page) => zstdCompressSync(page) } }),
  none: () => ({ codec: "UNCOMPRESSED", compressors: {} }),
};
