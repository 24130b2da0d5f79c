import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { shares } from "../../foundation/shares.ts";

/** The size of chunks: their number, or the rows of each. Exactly one is given. */
export type ChunkSize = { chunks: number; rows?: never } | { rows: number; chunks?: never };

/**
 * Rows of each chunk, in order. With a given number of chunks, their sizes differ by at most one
 * row. With a given number of rows, all chunks but the last have that many.
 *
 * @throws SluiceError `USAGE` for more than `limits.maxChunks` chunks.
 * @example
 * chunkRows(2014, { chunks: 200 }); // 14 chunks of 11 rows, then 186 of 10
 * chunkRows(2014, { rows: 1000 }); // [1000, 1000, 14]
 */
export function chunkRows(total: number, size: ChunkSize): number[] {
  const count = size.chunks ?? Math.max(1, Math.ceil(total / size.rows));
  if (count > limits.maxChunks) {
    throw new SluiceError("USAGE", `${count} chunks are more than ${limits.maxChunks}`, {
      hint: "ask for fewer --shards, or for more --rows in each",
    });
  }
  if (size.chunks !== undefined) return shares(total, count);
  return Array.from({ length: count }, (_, index) =>
    Math.min(size.rows, total - index * size.rows),
  );
}
