import { gzipSync, zstdCompressSync } from "node:zlib";
import type { CompressionCodec } from "hyparquet";
import type { Compressors } from "hyparquet-writer/src/types.js";
import { snappyCompressor } from "hysnappy";
import { lazily } from "../../../foundation/lazily.ts";

/** How the pages of a Parquet file are compressed. */
export type PageCompression = "snappy" | "gzip" | "zstd" | "none";

/** A compression by the name that files have for it, and what compresses so. */
export interface PageCodec {
  codec: CompressionCodec;
  compressors: Compressors;
}

/** One for all files: each has memory of its own, which the garbage collector cannot see. */
const snappy = lazily(snappyCompressor);

/** What compresses the pages of a file that is written. */
export const pageCodecs: Record<PageCompression, () => PageCodec> = {
  snappy: () => ({ codec: "SNAPPY", compressors: { SNAPPY: snappy() } }),
  gzip: () => ({ codec: "GZIP", compressors: { GZIP: (page) => gzipSync(page) } }),
  zstd: () => ({ codec: "ZSTD", compressors: { ZSTD: (page) => zstdCompressSync(page) } }),
  none: () => ({ codec: "UNCOMPRESSED", compressors: {} }),
};
