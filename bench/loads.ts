import { closeSync, existsSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { dataDirectory } from "./setting.ts";

const words = (
  "amber anchor apple arrow autumn basil beacon birch breeze bridge candle canyon cedar cider " +
  "cloud clover cobalt copper coral cotton crystal dawn delta ember feather fern field flint"
).split(" ");

const chunkChars = 1024 * 1024;

/**
 * A JSONL file of short rows, `{"id":…,"text":"five words"}`, about 60 bytes each. The same count
 * gives the same bytes on every machine; a file that is there is taken.
 *
 * @returns its path.
 */
export function shortRows(count: number): string {
  const path = join(dataDirectory, `short-rows-${count}.jsonl`);
  if (existsSync(path)) return path;
  mkdirSync(dataDirectory, { recursive: true });
  const draft = `${path}.draft`;
  const file = openSync(draft, "w");
  const next = wordsUnder(1);
  let text = "";
  for (let id = 0; id < count; id++) {
    text += `{"id":${id},"text":"${next()} ${next()} ${next()} ${next()} ${next()}"}\n`;
    if (text.length < chunkChars && id + 1 < count) continue;
    writeSync(file, text);
    text = "";
  }
  closeSync(file);
  renameSync(draft, path);
  return path;
}

/** Words in an order that follows from the seed: a linear congruential generator, high bits. */
export function wordsUnder(seed: number): () => string {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return words[(state >>> 16) % words.length]!;
  };
}
