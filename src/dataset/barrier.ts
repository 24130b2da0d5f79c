import { createReadStream } from "node:fs";
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { withStoreErrors } from "../data/storage/local-errors.ts";
import type { Storage } from "../data/storage/storage.ts";
import { digestOf, sha256Stream } from "../foundation/hashing.ts";
import { canonicalJson, type JsonObject } from "../foundation/json.ts";
import { limits } from "../foundation/limits.ts";
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

/** Longest line of a file of our own: V8 has no longer text. */
const maxOwnLineBytes = 512 * 1024 * 1024;

/**
 * Writes lines to a file of a storage, whole or not at all. Does nothing if the file exists.
 *
 * @param name of the file, without its ending.
 * @param signal ends it: then there is no file.
 * @returns the file, as an input of a job.
 */
export async function storedLines(
  storage: Storage,
  name: string,
  lines: AsyncIterable<string> | Iterable<string>,
  signal?: AbortSignal,
): Promise<JsonObject> {
  const found = await storedInput(storage, name);
  if (found) return found;
  let hasLong = false;
  await writeWhole(await HashedFile.open(storage, `${name}.jsonl`), async (file) => {
    for await (const line of lines) {
      signal?.throwIfAborted();
      if (!hasLong && isLong(line)) {
        hasLong = true;
        // Before the file is there: it must not be read without.
        await storage.createIfAbsent(`${name}.long`, Buffer.from("\n"));
      }
      await file.add(line);
    }
    // The lines may have ended because of it.
    signal?.throwIfAborted();
  });
  return (await storedInput(storage, name))!;
}

/** Lines that `storedLines` wrote, as an input of a job; undefined if there are none. */
export async function storedInput(storage: Storage, name: string): Promise<JsonObject | undefined> {
  const path = `${name}.jsonl`;
  if (!(await storage.stat(path))) return undefined;
  const input = { path: `${storage.location}/${path}`, format: "jsonl" };
  // Only where it is needed: a run is of an input with all its keys.
  const hasLong = (await storage.stat(`${name}.long`)) !== undefined;
  return hasLong ? { ...input, maxLineBytes: maxOwnLineBytes } : input;
}

/** Whether a line is longer than one of a user's file may be. */
function isLong(line: string): boolean {
  const { maxLineBytes } = limits;
  return 3 * line.length > maxLineBytes && Buffer.byteLength(line) > maxLineBytes;
}

/** A file name derived from what the file is made of. */
export function fileNameOf(kind: string, facts: unknown): string {
  return `${kind}-${digestOf(facts).slice(0, 16)}`;
}

/** The same for rows, all of which one text may not hold. */
export function fileNameOfRows(rows: readonly JsonObject[]): string {
  const digest = sha256Stream();
  let text = "[";
  for (const [at, row] of rows.entries()) {
    text += at === 0 ? canonicalJson(row) : `,${canonicalJson(row)}`;
    if (text.length < hashedChars) continue;
    digest.update(text);
    text = "";
  }
  return `rows-${digest.update(`${text}]`).digest("hex").slice(0, 16)}`;
}

/** Characters of rows that are hashed together. */
const hashedChars = 64 * 1024;

/** Characters of rows that a shuffle keeps in memory. */
const maxShuffleChars = 64 * 1024 * 1024;

/** Files over which lines are spread if memory cannot hold them. */
const buckets = 64;

/** Characters of a file that are written together. */
const bucketChars = 64 * 1024;

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
  const scattering = scatter(both(held, rest), random, directory);
  const scattered = await scattering.finally(() => rest.return?.());
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
  const texts = paths.map(() => "");
  const files: FileHandle[] = [];
  const write = async (at: number) => {
    const text = texts[at]!;
    texts[at] = "";
    await withStoreErrors(paths[at]!, () => files[at]!.appendFile(text));
  };
  try {
    for (const path of paths) {
      files.push(await withStoreErrors(path, () => open(path, "w")));
    }
    for await (const line of lines) {
      const at = randomInteger(random, buckets);
      texts[at] += `${line}\n`;
      if (texts[at]!.length >= bucketChars) await write(at);
    }
    for (const at of paths.keys()) await write(at);
  } finally {
    for (const file of files) await file.close();
  }
  return paths;
}
