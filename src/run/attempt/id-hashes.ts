import { hash } from "node:crypto";

/** Bytes of one (id hash, row index) pair. */
export const idPairBytes = 16;

/** The first 64 bits of an id's SHA-256. A number and its text are different ids. */
export function hashOfId(id: string | number): bigint {
  return hash("sha256", JSON.stringify(id), "buffer").readBigUInt64BE(0);
}

/**
 * Pairs of hash and row index as bytes, sorted by hash, then by row. The seal merges them to find
 * repeated ids. `pairs` holds hash, index, hash, index, …, in the order of the rows.
 */
export function sortedIds(pairs: readonly bigint[]): Buffer {
  const order = Array.from({ length: pairs.length / 2 }, (_, pair) => pair * 2);
  order.sort((a, b) => {
    const [left, right] = [pairs[a]!, pairs[b]!];
    return left === right ? a - b : left < right ? -1 : 1;
  });
  const bytes = Buffer.alloc(order.length * idPairBytes);
  order.forEach((pair, at) => {
    bytes.writeBigUInt64BE(pairs[pair]!, at * idPairBytes);
    bytes.writeBigUInt64BE(pairs[pair + 1]!, at * idPairBytes + 8);
  });
  return bytes;
}
