import { join } from "node:path";
import { type BatchModel, batched } from "../src/engines/batching/batched.ts";
import { batchCost, nextBatch } from "../src/engines/batching/next-batch.ts";
import type { Engine } from "../src/engines/engine.ts";
import { modelOptions } from "../src/engines/model-options.ts";
import { openEngine } from "../src/engines/registry.ts";
import { entryCommand } from "../src/entry.ts";
import { greedyParameters, type InferenceRequest } from "../src/foundation/inference.ts";
import { limits } from "../src/foundation/limits.ts";
import { engineContext } from "../test/engines/engine-context.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, root } from "./setting.ts";
import { azureLines } from "./traces.ts";

const batchRows = 32;
/** Rows that wait at once where what waiting rows cost is measured, and in its baseline. */
const waitingRows = 40_000;
const fewerRows = 4000;
const { signal } = new AbortController();

/**
 * What batching costs a request, alone and with the process that a predictor runs in, against
 * calling the model with arrays that were cut beforehand; what it costs while many others wait,
 * against few; and the padding that batches of one length save, on real lengths.
 */
export async function benchBatching(setting: BenchSetting): Promise<BenchResult[]> {
  const rows = setting.isSmall ? 3200 : 320_000;
  const figures = await inTurn("batching", setting.rounds, {
    direct: () => microseconds(rows, () => direct(rows)),
    batched: () => microseconds(rows, () => throughBatched(rows, batchRows)),
    fewer: () => microseconds(waitingRows, () => throughBatched(waitingRows, 1, fewerRows)),
    waiting: () => microseconds(waitingRows, () => throughBatched(waitingRows, 1, waitingRows)),
    predictor: () => throughPredictor(rows / 10),
  });
  const baseline = median(figures.direct);
  const cost = (
    name: string,
    values: readonly number[],
    against: number = baseline,
  ): BenchResult => {
    const value = median(values);
    return { name, value, unit: "µs", baseline: against, ratio: against / value };
  };
  const [waiting, fewer] = [waitingRows, fewerRows].map((each) => each.toLocaleString("en-US"));
  return [
    { ...cost(`a row, batched() by ${batchRows}`, figures.batched), atMost: 10 },
    cost(`a row, predictor with its process, by ${batchRows}`, figures.predictor),
    {
      ...cost(
        `a row, batched() by 1, ${waiting} waiting; ${fewer} waiting`,
        figures.waiting,
        median(figures.fewer),
      ),
      atMost: 30,
    },
    ...paddingOf(setting),
  ];
}

const model: BatchModel<number, number> = {
  run: async (batch) => batch.map((item) => item + 1),
};

async function microseconds(rows: number, work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return ((performance.now() - startedMs) * 1000) / rows;
}

async function direct(rows: number): Promise<void> {
  for (let at = 0; at < rows; at += batchRows) {
    const batch = Array.from({ length: batchRows }, (_, place) => at + place);
    await model.run(batch, signal);
  }
}

async function throughBatched(rows: number, maxBatchRows: number, most?: number): Promise<void> {
  const engine = batched([model], { maxBatchRows }, engineContext());
  await keepFull(rows, most ?? engine.capacity, (row) => engine.infer(row, {}, signal));
}

/** Asks for all rows, no more than `most` at once. */
async function keepFull(rows: number, most: number, ask: (row: number) => Promise<unknown>) {
  let next = 0;
  const feed = async () => {
    while (next < rows) await ask(next++);
  };
  await Promise.all(Array.from({ length: most }, feed));
}

async function throughPredictor(rows: number): Promise<number> {
  const module = join(root, "bench/length-predictor.ts");
  const options = { engine: "predictor", module, maxBatchRows: batchRows };
  const hostCommand = entryCommand("engines/host/main", process.execPath);
  const context = engineContext({ environment: process.env, hostCommand });
  const engine: Engine = await openEngine(modelOptions.parse(options), context);
  const ask = (row: number) => engine.infer(rowRequest(row), signal);
  try {
    await keepFull(rows / 10, engine.capacity, ask);
    return await microseconds(rows, () => keepFull(rows, engine.capacity, ask));
  } finally {
    await engine.close();
  }
}

function rowRequest(row: number): InferenceRequest {
  const parameters = { ...greedyParameters, maxNewTokens: 1, seed: 0 };
  return {
    ...{ parameters, origin: { index: row, promptName: "row" } },
    row: { id: row, text: "a row of some words, as they are" },
  };
}

function paddingOf({ isSmall }: BenchSetting): BenchResult[] {
  const lines = azureLines();
  if (lines === undefined) return [];
  const tokens = lines.slice(0, isSmall ? 1000 : undefined).map(([, prompt]) => Number(prompt));
  return [16, 32].map((rows) => {
    const baseline = paddedShare(tokens, rows, 0);
    const value = paddedShare(tokens, rows, limits.lookAheadBatches);
    return {
      ...{ name: `padded tokens a real one, by ${rows}, rows of one length together`, value },
      ...{ unit: "", baseline, ratio: baseline / value, atMost: 1.6 },
    };
  });
}

/** Padded tokens for each real one, the queue kept as full as the look-ahead needs it. */
function paddedShare(tokens: readonly number[], maxRows: number, lookAheadBatches: number): number {
  const bounds = { maxRows, lookAheadRows: maxRows * lookAheadBatches };
  const inSight = Math.max(maxRows, bounds.lookAheadRows);
  let waiting: { tokens: number }[] = [];
  let padded = 0;
  for (let next = 0; next < tokens.length || waiting.length > 0; ) {
    const room = inSight - waiting.length;
    waiting.push(...tokens.slice(next, next + room).map((each) => ({ tokens: each })));
    next += room;
    const taken = new Set(nextBatch(waiting, bounds).places);
    padded += batchCost(waiting.filter((_, place) => taken.has(place))).paddedTokens;
    waiting = waiting.filter((_, place) => !taken.has(place));
  }
  return padded / tokens.reduce((sum, each) => sum + each, 0);
}
