import type { RandomReader, Storage } from "../../data/storage/storage.ts";
import { idPairBytes } from "../attempt/id-hashes.ts";
import type { FileRecord } from "../plan/plan.ts";
import type { Manifest } from "./manifest.ts";

const maxPairsInMemory = 2_000_000;
const maxExamples = 10;

/**
 * Finds ids that several rows have, in flat memory: the sorted files of all tasks are read in
 * passes over ranges of the hash, each small enough to be sorted in memory.
 *
 * @param maxPairs pairs in memory at once; only tests set it.
 */
export async function findDuplicateIds(
  storage: Storage,
  files: readonly FileRecord[],
  maxPairs: number = maxPairsInMemory,
): Promise<NonNullable<Manifest["duplicateIds"]>> {
  const pairs = files.reduce((sum, { bytes }) => sum + bytes / idPairBytes, 0);
  const passes = Math.max(1, Math.ceil((pairs * 1.5) / maxPairs));
  const found: NonNullable<Manifest["duplicateIds"]> = { count: 0, examples: [] };
  for (let pass = 0; pass < passes; pass++) {
    const range = { from: boundary(pass, passes), to: boundary(pass + 1, passes) };
    const entries: [bigint, number][] = [];
    for (const { path } of files) {
      const reader = await storage.open(path);
      try {
        await readRange(reader, range, entries);
      } finally {
        await reader.close();
      }
    }
    countRepeats(entries, found);
  }
  return found;
}

function boundary(pass: number, passes: number): bigint {
  return ((1n << 64n) * BigInt(pass)) / BigInt(passes);
}

async function readRange(
  reader: RandomReader,
  { from, to }: { from: bigint; to: bigint },
  entries: [bigint, number][],
): Promise<void> {
  const chunkPairs = 4096;
  const count = reader.bytes / idPairBytes;
  for (let pair = await lowerBound(reader, count, from); pair < count; pair += chunkPairs) {
    const chunk = Buffer.from(await reader.read(pair * idPairBytes, chunkPairs * idPairBytes));
    for (let at = 0; at < chunk.length; at += idPairBytes) {
      const hash = chunk.readBigUInt64BE(at);
      if (hash >= to) return;
      entries.push([hash, Number(chunk.readBigUInt64BE(at + 8))]);
    }
  }
}

async function lowerBound(reader: RandomReader, count: number, from: bigint): Promise<number> {
  if (from === 0n) return 0;
  let [low, high] = [0, count];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const hash = Buffer.from(await reader.read(middle * idPairBytes, 8)).readBigUInt64BE();
    if (hash < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

function countRepeats(
  entries: [bigint, number][],
  found: NonNullable<Manifest["duplicateIds"]>,
): void {
  entries.sort(([a, rowA], [b, rowB]) => (a < b ? -1 : a > b ? 1 : rowA - rowB));
  for (let at = 1; at < entries.length; at++) {
    // A row that was read again is in the files twice.
    if (entries[at]![0] !== entries[at - 1]![0] || entries[at]![1] === entries[at - 1]![1])
      continue;
    found.count++;
    const rows: [number, number] = [entries[at - 1]![1], entries[at]![1]];
    if (found.examples.length < maxExamples) found.examples.push({ rows });
  }
}
