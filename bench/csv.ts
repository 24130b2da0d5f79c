import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { wordsUnder } from "./loads.ts";
import { type ProgramRun, runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const baseline = join(import.meta.dirname, "csv-baseline.ts");
const output = join(dataDirectory, "csv");

/**
 * Rows a second from CSV to JSON lines with an engine that answers at once: start, planning,
 * journal, commits and seal included. The baseline is a loop over papaparse in one process.
 */
export async function benchCsv(setting: BenchSetting): Promise<BenchResult[]> {
  const rows = setting.isSmall ? 20_000 : 1_000_000;
  const input = quotedRows(rows);
  const figures = await inTurn("csv", setting.rounds, {
    rows: () => plainLoop("rows", input),
    one: () => sluice(setting, input, 1),
    chunks: () => plainLoop("chunks", input),
    two: () => sluice(setting, input, 2),
  });
  const rateOf = (runs: readonly ProgramRun[]) => rows / median(runs.map((run) => run.seconds));
  const compare = (name: string, value: number, base: number, goal?: number): BenchResult => ({
    ...{ name: `${rows / 1e6}M rows of CSV, ${name}`, value, unit: "rows/s", baseline: base },
    ratio: value / base,
    ...(goal === undefined ? {} : { goal }),
  });
  const [one, two] = [rateOf(figures.one), rateOf(figures.two)];
  const [byRow, byChunk] = [rateOf(figures.rows), rateOf(figures.chunks)];
  return [
    compare("1 worker, papaparse by rows", one, byRow),
    compare("2 workers, papaparse by rows", two, byRow, 0.6),
    compare("1 worker, papaparse by chunks", one, byChunk),
    compare("2 workers, papaparse by chunks", two, byChunk),
  ];
}

/**
 * A CSV file of short records, one of four with quotes, a comma and a line's end in its text. The
 * same count gives the same bytes; a file that is there is taken.
 */
function quotedRows(count: number): string {
  const path = join(dataDirectory, `quoted-rows-${count}.csv`);
  if (existsSync(path)) return path;
  mkdirSync(dataDirectory, { recursive: true });
  const draft = `${path}.draft`;
  const file = openSync(draft, "w");
  const next = wordsUnder(1);
  writeSync(file, "id,text,label\n");
  let text = "";
  for (let id = 0; id < count; id++) {
    const words = `${next()} ${next()} ${next()}`;
    const quoted = id % 4 === 0 ? `"${words}, ""${next()}""\n${next()}"` : `${words} ${next()}`;
    text += `${id},${quoted},${next()}\n`;
    if (id % 10_000 !== 0 && id + 1 < count) continue;
    writeSync(file, text);
    text = "";
  }
  closeSync(file);
  renameSync(draft, path);
  return path;
}

async function plainLoop(way: "chunks" | "rows", input: string): Promise<ProgramRun> {
  const file = join(dataDirectory, "csv-baseline.jsonl");
  settleDisk();
  const run = await runProgram([baseline, way, input, file]);
  if (statSync(file).size < statSync(input).size) throw new Error(`${file} is too small`);
  rmSync(file);
  return run;
}

async function sluice(setting: BenchSetting, input: string, workers: number): Promise<ProgramRun> {
  rmSync(output, { recursive: true, force: true });
  settleDisk();
  const job = ["--input", input, "--model", "fake", "--prompt", "Say more: {{ text }}"];
  const rest = ["--output", output, "--workers.max", String(workers), "--seed", "1", "--quiet"];
  const run = await runSluice(setting, ["run", ...job, ...rest]);
  rmSync(output, { recursive: true });
  return run;
}
