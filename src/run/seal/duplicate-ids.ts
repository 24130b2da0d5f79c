import type { RandomReader, Storage } from "../../data/storage/storage.ts";
import { indexesIn } from "../../foundation/index-set.ts";
import type { Commit } from "../attempt/commit.ts";
import { idPairBytes } from "../attempt/id-hashes.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { readPlan, TaskTable } from "../plan/plan.ts";
import type { Manifest } from "./manifest.ts";

const maxPairsInMemory = 2_000_000;
const maxExamples = 10;

export type OfIds = Pick<Commit, "ids" | "task" | "generation">;

/** A file of ids, without those of rows that a later retry read again. */
interface IdFile extends FileRecord {
  replaced?: ReadonlySet<number>;
}

/**
 * The present ids of all rows: those that a retry read again may have others.
 *
 * @param commits those of each task: the first one, and those of retries.
 */
export async function presentIds(
  storage: Storage,
  commits: readonly (readonly OfIds[])[],
): Promise<IdFile[]> {
  const files: IdFile[] = [];
  const tables = new Map<number, TaskTable>();
  try {
    for (const ofTask of commits) {
      const replaced = new Set<number>();
      const newestFirst = ofTask.toSorted((a, b) => b.generation - a.generation);
      for (const [at, { ids, task, generation }] of newestFirst.entries()) {
        if (ids) files.push({ ...ids, replaced: new Set(replaced) });
        if (at === newestFirst.length - 1) continue;
        const table =
          tables.get(generation) ?? new TaskTable(storage, await readPlan(storage, generation));
        tables.set(generation, table);
        const { only } = await table.task(task);
        for (const row of indexesIn(only!)) replaced.add(row);
      }
    }
  } finally {
    await Promise.all([...tables.values()].map((table) => table.close()));
  }
  return files;
}

/**
 * Finds ids that several rows have, in flat memory: the sorted files of all tasks are read in
 * passes over ranges of the hash, each small enough to be sorted in memory.
 *
 * @param maxPairs pairs in memory at once; only tests set it.
 */
export async function findDuplicateIds(
  storage: Storage,
  files: readonly IdFile[],
  maxPairs: number = maxPairsInMemory,
): Promise<NonNullable<Manifest["duplicateIds"]>> {
  const pairs = files.reduce((sum, { bytes }) => sum + bytes / idPairBytes, 0);
  const passes = Math.max(1, Math.ceil((pairs * 1.5) / maxPairs));
  const found: NonNullable<Manifest["duplicateIds"]> = { count: 0, examples: [] };
  for (let pass = 0; pass < passes; pass++) {
    const range = { from: boundary(pass, passes), to: boundary(pass + 1, passes) };
    const entries: [bigint, number][] = [];
    for (const { path, replaced } of files) {
      const reader = await storage.open(path);
      try {
        await readRange(reader, range, entries, replaced);
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
  replaced?: ReadonlySet<number>,
): Promise<void> {
  const chunkPairs = 4096;
  const count = reader.bytes / idPairBytes;
  for (let pair = await lowerBound(reader, count, from); pair < count; pair += chunkPairs) {
    const chunk = Buffer.from(await reader.read(pair * idPairBytes, chunkPairs * idPairBytes));
    for (let at = 0; at < chunk.length; at += idPairBytes) {
      const hash = chunk.readBigUInt64BE(at);
      if (hash >= to) return;
      const row = Number(chunk.readBigUInt64BE(at + 8));
      if (!replaced?.has(row)) entries.push([hash, row]);
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
    if (entries[at]![0] !== entries[at - 1]![0]) continue;
    found.count++;
    const rows: [number, number] = [entries[at - 1]![1], entries[at]![1]];
    if (found.examples.length < maxExamples) found.examples.push({ rows });
  }
}
