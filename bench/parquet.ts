import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { asyncBufferFromFile, parquetMetadataAsync } from "hyparquet";
import { parquetRows } from "./parquet-load.ts";
import { type ProgramRun, runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const baseline = join(import.meta.dirname, "parquet-baseline.ts");
const output = join(dataDirectory, "parquet");

/**
 * Rows a second of Parquet → prompts → Parquet with an engine that answers at once, from start to
 * seal. The baseline is a loop in one process over the bare libraries that reads row groups, makes
 * prompts, adds a field and writes row groups. With `--large` the most memory that a process takes
 * on a file of 2 GB.
 */
export async function benchParquet(setting: BenchSetting): Promise<BenchResult[]> {
  if (setting.isLarge) return [await memoryOfLarge(setting)];
  const rows = setting.isSmall ? 20_000 : 1_000_000;
  const input = parquetRows(rows, 30);
  const figures = await inTurn("parquet", setting.rounds, {
    loop: () => plainLoop(input),
    two: () => sluice(setting, input, 2),
    one: () => sluice(setting, input, 1),
  });
  const rateOf = (runs: readonly ProgramRun[]) => rows / median(runs.map((run) => run.seconds));
  const base = rateOf(figures.loop);
  const result = (name: string, value: number, goal?: number): BenchResult => ({
    ...{ name: `Parquet to Parquet, ${name}`, value, unit: "rows/s", baseline: base },
    ratio: value / base,
    ...(goal !== undefined && { goal }),
  });
  return [result("2 workers", rateOf(figures.two), 0.6), result("1 worker", rateOf(figures.one))];
}

async function memoryOfLarge(setting: BenchSetting): Promise<BenchResult> {
  const input = parquetRows(2_000_000, 160, true);
  const loop = await plainLoop(input);
  const run = await sluice(setting, input, 2);
  const megabytes = (bytes: number) => bytes / 1024 ** 2;
  const [value, base] = [megabytes(run.peakMemoryBytes), megabytes(loop.peakMemoryBytes)];
  const name = `Parquet of ${(statSync(input).size / 1024 ** 3).toFixed(1)} GB, memory of a process`;
  return { name, value, unit: "MB", baseline: base, ratio: base / value, atMost: 300 };
}

async function plainLoop(input: string): Promise<ProgramRun> {
  const file = join(dataDirectory, "parquet-baseline.parquet");
  settleDisk();
  const run = await runProgram([baseline, input, file], { isMemoryNoted: true });
  if ((await rowsOf(file)) !== (await rowsOf(input))) throw new Error(`${file} lacks rows`);
  rmSync(file);
  return run;
}

async function rowsOf(file: string): Promise<bigint> {
  return (await parquetMetadataAsync(await asyncBufferFromFile(file))).num_rows;
}

async function sluice(setting: BenchSetting, input: string, workers: number): Promise<ProgramRun> {
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const job = ["--input", input, "--model", "fake", "--prompt", "Say more: {{ text }}"];
  const form = ["--output", output, "--output.format", "parquet", "--seed", "1", "--quiet"];
  const rest = ["--workers.max", String(workers)];
  const run = await runSluice(setting, ["run", ...job, ...form, ...rest], { isMemoryNoted: true });
  rmSync(output, { recursive: true });
  return run;
}
