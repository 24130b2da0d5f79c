import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { shortRows } from "./loads.ts";
import { type ProgramRun, runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const baseline = join(import.meta.dirname, "noop-baseline.ts");
const output = join(dataDirectory, "noop");

/**
 * Rows a second through the whole pipeline with an engine that answers at once: start, planning,
 * journal, commits, seal and proof included. The baseline is a loop in one process that reads,
 * parses, adds a field, stringifies and writes, line by line as Node's documentation shows it; the
 * goals are against that one. A loop over whole chunks stands beside it as the least that is due.
 */
export async function benchNoop(setting: BenchSetting): Promise<BenchResult[]> {
  const rows = setting.isSmall ? 20_000 : setting.isLarge ? 10_000_000 : 1_000_000;
  const input = shortRows(rows);
  const figures = await inTurn("noop", setting.isLarge ? 1 : setting.rounds, {
    chunks: () => plainLoop("chunks", input),
    one: () => sluice(setting, input, 1),
    lines: () => plainLoop("lines", input),
    two: () => sluice(setting, input, 2),
  });
  const rateOf = (runs: readonly ProgramRun[]) => rows / median(runs.map((run) => run.seconds));
  const compare = (name: string, value: number, base: number, goal?: number): BenchResult => ({
    ...{ name: `${rows / 1e6}M rows, ${name}`, value, unit: "rows/s", baseline: base },
    ratio: value / base,
    ...(goal === undefined ? {} : { goal }),
  });
  const [one, two] = [rateOf(figures.one), rateOf(figures.two)];
  const [chunks, lines] = [rateOf(figures.chunks), rateOf(figures.lines)];
  return [
    compare("1 worker, readline", one, lines, 0.5),
    compare("2 workers, readline", two, lines, 0.75),
    compare("1 worker, whole chunks", one, chunks),
    compare("2 workers, whole chunks", two, chunks),
    memoryResult(rows, [...figures.one, ...figures.two], figures.chunks),
  ];
}

function memoryResult(
  rows: number,
  runs: readonly ProgramRun[],
  baselines: readonly ProgramRun[],
): BenchResult {
  const most = (of: readonly ProgramRun[]) =>
    Math.max(...of.map((run) => run.peakMemoryBytes)) / 1024 ** 2;
  const [value, base] = [most(runs), most(baselines)];
  const name = `${rows / 1e6}M rows, memory of a process`;
  return { name, value, unit: "MB", baseline: base, ratio: base / value, atMost: 350 };
}

async function plainLoop(way: "chunks" | "lines", input: string): Promise<ProgramRun> {
  const file = join(dataDirectory, "noop-baseline.jsonl");
  settleDisk();
  const run = await runProgram([baseline, way, input, file], { isMemoryNoted: true });
  if (statSync(file).size < statSync(input).size) throw new Error(`${file} is too small`);
  rmSync(file);
  return run;
}

async function sluice(setting: BenchSetting, input: string, workers: number): Promise<ProgramRun> {
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const job = ["--input", input, "--model", "fake", "--prompt", "Say more: {{ text }}"];
  const rest = ["--output", output, "--workers.max", String(workers), "--seed", "1", "--quiet"];
  const run = await runSluice(setting, ["run", ...job, ...rest], { isMemoryNoted: true });
  rmSync(output, { recursive: true });
  return run;
}
