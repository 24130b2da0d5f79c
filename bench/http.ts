import { rmSync } from "node:fs";
import { join } from "node:path";
import { shortRows } from "./loads.ts";
import { runProgram, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { startServer } from "./server.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const delayMs = 100;
const inFlight = 64;
const output = join(dataDirectory, "http");

/**
 * 512 rows against a server that takes 100 ms, 64 at once, from start to seal; 0.8 s if nothing but
 * the server took time. The baseline is a loop over undici, start included.
 */
export async function benchHttp(setting: BenchSetting): Promise<BenchResult[]> {
  const rows = setting.isSmall ? 128 : 512;
  const main = join(setting.packageDirectory, "dist/testing/fake-server-main.js");
  const server = await startServer([main, "--delay-ms", String(delayMs)]);
  try {
    const [value, baseline] = await overServer(setting, server.baseUrl, rows, "http");
    const name = `${rows} rows × ${delayMs} ms over HTTP, ${inFlight} at once`;
    return [{ name, value, unit: "s", baseline, ratio: baseline / value, atMost: 1.2 }];
  } finally {
    await server.stop();
  }
}

/** Median seconds of Sluice and of a bare loop over undici, whole processes. */
export async function overServer(
  setting: BenchSetting,
  baseUrl: string,
  rows: number,
  label: string,
): Promise<[sluice: number, baseline: number]> {
  const input = shortRows(rows);
  const plain = join(import.meta.dirname, "http-baseline.ts");
  const model = ["--model", "openai:bench", "--base-url", baseUrl];
  const job = ["--input", input, ...model, "--prompt", "{{ text }}", "--output", output];
  const width = ["--model.maxInFlight", String(inFlight), "--workers.max", "1"];
  const figures = await inTurn(label, setting.rounds, {
    baseline: async () => {
      const args = [input, `${output}-baseline.jsonl`, baseUrl, String(inFlight)];
      return (await runProgram([plain, ...args])).seconds;
    },
    sluice: async () => {
      rmSync(output, { recursive: true, force: true });
      settleDisk();
      const args = ["run", ...job, ...width, "--seed", "1", "--quiet"];
      return (await runSluice(setting, args)).seconds;
    },
  });
  return [median(figures.sluice), median(figures.baseline)];
}
