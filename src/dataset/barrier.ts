import type { Storage } from "../data/storage/storage.ts";
import { digestOf } from "../foundation/hashing.ts";
import { limits } from "../foundation/limits.ts";
import { seededRandom } from "../foundation/random.ts";
import { drawSample } from "../run/plan/scan-input.ts";
import type { Barrier } from "./segment.ts";
import { shuffled } from "./shuffle.ts";

/** Lines that can be read more than once. */
export type Lines = () => AsyncIterable<string>;

/**
 * What a step makes of all lines before it.
 *
 * @param directory a folder of this machine for files that are gone at the end.
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
 * Writes lines as a file of a storage, whole or not at all; nothing where it is there already.
 *
 * @param name without its ending.
 * @returns its address, as inputs are named.
 */
export async function storedLines(
  storage: Storage,
  name: string,
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<string> {
  const path = `${name}.jsonl`;
  const address = `${storage.location}/${path}`;
  if (await storage.stat(path)) return address;
  const writer = await storage.writer(path);
  try {
    let text = "";
    for await (const line of lines) {
      text += `${line}\n`;
      if (text.length < limits.readChunkBytes) continue;
      await writer.write(Buffer.from(text));
      text = "";
    }
    if (text !== "") await writer.write(Buffer.from(text));
    await writer.close();
  } catch (error) {
    await writer.abort();
    throw error;
  }
  return address;
}

/** A name that follows from what a file is made of. */
export function fileNameOf(kind: string, facts: unknown): string {
  return `${kind}-${digestOf(facts).slice(0, 16)}`;
}
