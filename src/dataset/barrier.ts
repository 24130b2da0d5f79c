import type { Storage } from "../data/storage/storage.ts";
import { digestOf } from "../foundation/hashing.ts";
import { seededRandom } from "../foundation/random.ts";
import { HashedFile, writeWhole } from "../run/output/hashed-file.ts";
import { drawSample } from "../run/plan/scan-input.ts";
import type { Barrier } from "./segment.ts";
import { shuffled } from "./shuffle.ts";

/** Lines that can be read several times. */
export type Lines = () => AsyncIterable<string>;

/**
 * The output lines of a step that needs all input lines.
 *
 * @param directory a local folder for files that are removed at the end.
 */
export async function* throughBarrier(
  lines: Lines,
  step: Barrier,
  directory: string,
): AsyncGenerator<string> {
  if (step.kind === "union") return yield* lines();
  if (step.kind === "limit") return yield* firstOf(lines(), step.rows);
  const random = seededRandom(step.seed);
  if (step.kind === "shuffle") return yield* shuffled(lines(), { random, directory });
  if (step.rows === undefined) {
    for await (const line of lines()) if (random.next() < step.share!) yield line;
    return;
  }
  let count = 0;
  for await (const _ of lines()) count++;
  const chosen = new Set(drawSample(count, step.rows, random));
  let at = 0;
  for await (const line of lines()) if (chosen.has(at++)) yield line;
}

async function* firstOf(lines: AsyncIterable<string>, most: number): AsyncGenerator<string> {
  if (most === 0) return;
  let count = 0;
  for await (const line of lines) {
    yield line;
    if (++count >= most) return;
  }
}

/**
 * Writes lines to a file of a storage, whole or not at all. Does nothing if the file exists.
 *
 * @param name of the file, without its ending.
 * @returns the file's address, as an input names it.
 */
export async function storedLines(
  storage: Storage,
  name: string,
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<string> {
  const path = `${name}.jsonl`;
  const address = `${storage.location}/${path}`;
  if (await storage.stat(path)) return address;
  await writeWhole(await HashedFile.open(storage, path), async (file) => {
    for await (const line of lines) await file.add(line);
  });
  return address;
}

/** A file name derived from what the file is made of. */
export function fileNameOf(kind: string, facts: unknown): string {
  return `${kind}-${digestOf(facts).slice(0, 16)}`;
}
