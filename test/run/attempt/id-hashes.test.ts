import { describe, expect, it } from "vitest";
import { hashOfId, idPairBytes, sortedIds } from "../../../src/run/attempt/id-hashes.ts";

describe("id hashes", () => {
  it("tell a number from its text", () => {
    expect(hashOfId(1)).not.toBe(hashOfId("1"));
    expect(hashOfId("a")).toBe(hashOfId("a"));
  });

  it("lie sorted by hash, then by row", () => {
    const big = 2n ** 63n + 5n;
    const bytes = sortedIds([big, 1n, 0n, 2n, 7n, 3n, big, 4n]);
    const pairs = Array.from({ length: bytes.length / idPairBytes }, (_, pair) => [
      bytes.readBigUInt64BE(pair * idPairBytes),
      bytes.readBigUInt64BE(pair * idPairBytes + 8),
    ]);
    expect(pairs).toEqual([
      [0n, 2n],
      [7n, 3n],
      [big, 1n],
      [big, 4n],
    ]);
  });
});
