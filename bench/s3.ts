import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { S3Proxy } from "../test/s3-proxy.ts";
import { bucket, missingS3Server, S3Server } from "../test/s3-server.ts";
import { shortRows } from "./loads.ts";
import { type ProgramRun, runSluice, settleDisk } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

/** Added to each request by the proxy before the store. */
const latencyMs = 20;
const folder = join(dataDirectory, "s3");

/**
 * Rows a second of a whole run from one object to a run directory in the same bucket, each request
 * of which takes 20 ms longer, beside the same run from disk to disk. The engine answers at once.
 */
export async function benchS3(setting: BenchSetting): Promise<BenchResult[]> {
  if (missingS3Server !== undefined) throw new Error(missingS3Server);
  const rows = setting.isSmall ? 20_000 : 1_000_000;
  const input = shortRows(rows);
  const server = await S3Server.start();
  const proxy = await S3Proxy.start({ server: server.address, latencyMs });
  try {
    cpSync(input, join(server.directory, bucket, "rows.jsonl"));
    const figures = await inTurn("s3", setting.rounds, {
      local: () => run(setting, input, join(folder, "out")),
      far: async () => {
        rmSync(join(server.directory, bucket, "out"), { recursive: true, force: true });
        const environment = { ...server.environment, AWS_ENDPOINT_URL_S3: proxy.address };
        const at = (name: string) => `s3://${bucket}/${name}`;
        return await run(setting, at("rows.jsonl"), at("out"), environment);
      },
    });
    const rateOf = (runs: readonly ProgramRun[]) => rows / median(runs.map((it) => it.seconds));
    const [value, baseline] = [rateOf(figures.far), rateOf(figures.local)];
    const name = `${rows / 1e6}M rows S3 to S3, each request ${latencyMs} ms longer; from disk to disk`;
    return [{ name, value, unit: "rows/s", baseline, ratio: value / baseline, goal: 0.7 }];
  } finally {
    await proxy.stop();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function run(
  setting: BenchSetting,
  input: string,
  output: string,
  environment: Record<string, string> = {},
): Promise<ProgramRun> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  settleDisk();
  const job = ["--input", input, "--model", "fake", "--prompt", "Say more: {{ text }}"];
  const rest = ["--output", output, "--workers.max", "1", "--seed", "1", "--quiet"];
  return await runSluice(setting, ["run", ...job, ...rest], {
    environment: { SLUICE_HOME: join(folder, "home"), ...environment },
  });
}
