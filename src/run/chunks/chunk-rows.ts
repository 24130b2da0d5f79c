import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { shares } from "../../foundation/shares.ts";

/** How large chunks are to be: so many of them, or so many rows in each. Exactly one is given. */
export type ChunkSize = { chunks: number; rows?: never } | { rows: number; chunks?: never };

/**
 * Rows of each chunk, in order. Given a number of chunks, all have as many rows, but for one row;
 * given a number of rows, all have that many, but for the last.
 *
 * @throws SluiceError `USAGE` where there would be more than `limits.maxChunks` chunks.
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
