import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Dataset, dataset, generate } from "../src/index.ts";
import { batchMs } from "./overlap-stages.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory, root } from "./setting.ts";

const batchRows = 16;
const stages = join(root, "bench/overlap-stages.ts");

/**
 * A stage that computes 20 ms a batch before a model that takes 20 ms a batch, against the model
 * alone: where the two overlap, both together take no longer than one of them.
 */
export async function benchOverlap(setting: BenchSetting): Promise<BenchResult[]> {
  const batches = setting.isSmall ? 10 : 400;
  const rows = Array.from({ length: batches * batchRows }, (_, id) => ({ id }));
  const model = generate({
    model: { engine: "predictor", module: stages, maxBatchRows: batchRows },
    field: "answer",
  });
  const read = dataset.from(rows);
  const prepared = read.mapBatches<{ id: number }>(`${stages}#Prepare`, { batchSize: batchRows });
  const figures = await inTurn("overlap", setting.rounds, {
    alone: () => secondsOf(read.pipe(model)),
    both: () => secondsOf(prepared.pipe(model)),
  });
  const [alone, both] = [median(figures.alone), median(figures.both)];
  const ideal = (batches * batchMs) / 1000;
  return [
    {
      name: `${batches} batches, ${batchMs} ms of CPU before ${batchMs} ms of a model`,
      ...{ value: both, unit: "s", baseline: alone, ratio: alone / both, goal: 0.87 },
    },
    {
      name: "the same against the time of one stage by the clock, starts included",
      ...{ value: both, unit: "s", baseline: ideal, ratio: ideal / both },
    },
  ];
}

async function secondsOf(rows: Dataset): Promise<number> {
  const output = join(dataDirectory, "overlap");
  rmSync(output, { recursive: true, force: true });
  const startedMs = performance.now();
  const { error } = await rows.run({ output });
  if (error) throw error;
  return (performance.now() - startedMs) / 1000;
}
