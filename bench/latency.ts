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
 * 400 rows of 50 ms on 4 workers of one slot each, from plan to seal; 5.0 s if nothing but the
 * waiting took time. Beside it the whole command. The baseline waits as long in one process.
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
      const times: number[] = [];
      const onLine = (line: string) => times.push(...timeOf(line));
      const args = ["run", ...job, "--workers.max", String(workers), "--json"];
      const { seconds } = await runSluice(setting, args, { onLine });
      // The first event is the plan's, the last one the seal.
      return { seconds, planToSeal: (times.at(-1)! - times[0]!) / 1000 };
    },
  });
  const baseline = median(figures.baseline);
  const compare = (name: string, seconds: readonly number[], atMost?: number): BenchResult => {
    const value = median(seconds);
    return {
      ...{ name, value, unit: "s", baseline, ratio: baseline / value },
      ...(atMost === undefined ? {} : { atMost }),
    };
  };
  const name = `${rows} rows × ${rowMs} ms, ${workers} slots`;
  return [
    compare(
      `${name}, plan to seal`,
      figures.sluice.map((run) => run.planToSeal),
      5.5,
    ),
    compare(
      `${name}, whole command`,
      figures.sluice.map((run) => run.seconds),
    ),
  ];
}

/** When an event of the plan or the seal was; nothing of other lines. */
function timeOf(line: string): number[] {
  if (!line.startsWith("{")) return [];
  const { type, time } = JSON.parse(line) as { type: string; time: number };
  return type === "plan-progress" || type === "run-seal" ? [time] : [];
}
