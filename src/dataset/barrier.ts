import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import type { Storage } from "../data/storage/storage.ts";
import { digestOf } from "../foundation/hashing.ts";
import { linesOfChunks } from "../foundation/lines.ts";
import { type Random, randomInteger, seededRandom } from "../foundation/random.ts";
import { HashedFile, writeWhole } from "../run/output/hashed-file.ts";
import { drawSample } from "../run/plan/scan-input.ts";
import type { Barrier } from "./segment.ts";

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

/** Characters of rows that a shuffle keeps in memory. */
const maxShuffleChars = 64 * 1024 * 1024;

/** Files over which lines are spread if memory cannot hold them. */
const buckets = 64;

interface ShuffleOptions {
  random: Random;
  /** A folder for files that are removed at the end. */
  directory: string;
  /** Characters to keep in memory at once; default `maxShuffleChars`. */
  maxChars?: number;
}

/**
 * Lines in a random order; every order is equally likely. If memory cannot hold them, each line
 * goes to a random file, and the files are shuffled one by one.
 */
export async function* shuffled(
  lines: AsyncIterable<string>,
  { random, directory, maxChars = maxShuffleChars }: ShuffleOptions,
): AsyncGenerator<string> {
  const held: string[] = [];
  let chars = 0;
  const rest = lines[Symbol.asyncIterator]();
  for (;;) {
    const { done, value } = await rest.next();
    if (done) return yield* inMemory(held, random);
    held.push(value);
    chars += value.length;
    if (chars > maxChars && held.length > 1) break;
  }
  const scattered = await scatter(both(held, rest), random, directory);
  for (const path of scattered) {
    const lines = linesOfChunks(createReadStream(path));
    yield* shuffled(lines, { random, directory, maxChars });
    await rm(path);
  }
}

/** Fisher-Yates shuffle. */
function* inMemory(lines: string[], random: Random): Generator<string> {
  for (let last = lines.length - 1; last >= 0; last--) {
    const chosen = randomInteger(random, last + 1);
    const line = lines[chosen]!;
    lines[chosen] = lines[last]!;
    yield line;
  }
}

async function* both(held: readonly string[], rest: AsyncIterator<string>): AsyncGenerator<string> {
  yield* held;
  for (;;) {
    const { done, value } = await rest.next();
    if (done) return;
    yield value;
  }
}

async function scatter(
  lines: AsyncIterable<string>,
  random: Random,
  directory: string,
): Promise<string[]> {
  const own = await mkdtemp(join(directory, "scattered-"));
  const paths = Array.from({ length: buckets }, (_, at) => join(own, `${at}.jsonl`));
  const files = paths.map((path) => createWriteStream(path));
  for await (const line of lines) {
    const file = files[randomInteger(random, buckets)]!;
    if (!file.write(`${line}\n`)) await once(file, "drain");
  }
  for (const file of files) file.end();
  await Promise.all(files.map((file) => finished(file)));
  return paths;
}
