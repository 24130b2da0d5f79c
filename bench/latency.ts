import { rmSync } from "node:fs";
import { join } from "node:path";
import { shortRows } from "./loads.ts";
import { runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const rowMs = 50;
const workers = 4;

/**
 * 400 rows of 50 ms on 4 workers of one slot each, from start to seal; 5.0 s if nothing but the
 * waiting took time. The baseline waits as long in one process.
 */
export async function benchLatency(setting: BenchSetting): Promise<BenchResult[]> {
  const rows = setting.isSmall ? 40 : 400;
  const input = shortRows(rows);
  const output = join(dataDirectory, "latency");
  const engine = ["--model", "fake", "--model.latencyMs", String(rowMs), "--model.capacity", "1"];
  const job = ["--input", input, ...engine, "--prompt", "{{ text }}", "--output", output];
  const plain = join(import.meta.dirname, "latency-baseline.ts");
  const figures = await inTurn("latency", setting.rounds, {
    baseline: async () => {
      const args = [input, `${output}-baseline.jsonl`, String(rowMs), String(workers)];
      return (await runProgram([plain, ...args])).seconds;
    },
    sluice: async () => {
      rmSync(output, { recursive: true, force: true });
      settleDisk();
      const args = ["run", ...job, "--workers.max", String(workers), "--quiet"];
      return (await runSluice(setting, args)).seconds;
    },
  });
  const [value, baseline] = [median(figures.sluice), median(figures.baseline)];
  const name = `${rows} rows × ${rowMs} ms, ${workers} slots`;
  return [{ name, value, unit: "s", baseline, ratio: baseline / value, atMost: 5.5 }];
}
