import { join } from "node:path";
import { overServer } from "./http.ts";
import { runProgram } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { startServer } from "./server.ts";
import type { BenchSetting } from "./setting.ts";

const inFlight = 64;
const client = join(import.meta.dirname, "openai-client.ts");

/**
 * Requests a second against a server that answers at once: the engine alone in a warm process, and
 * whole runs from start to seal. The baselines are bare loops over undici, alike.
 */
export async function benchOpenai(setting: BenchSetting): Promise<BenchResult[]> {
  const requests = setting.isSmall ? 2000 : 40_000;
  const server = await startServer([join(import.meta.dirname, "instant-server.ts")]);
  try {
    const measure = (way: "engine" | "undici", workers: number) => async () => {
      const args = [server.baseUrl, `${requests}`, `${inFlight}`];
      const one = async () => {
        const { stdout } = await runProgram([client, way, ...args]);
        return (JSON.parse(stdout) as { perSecond: number }).perSecond;
      };
      const rates = await Promise.all(Array.from({ length: workers }, one));
      return rates.reduce((sum, rate) => sum + rate, 0);
    };
    const unit = "requests/s";
    const engines: BenchResult[] = [];
    for (const [workers, name] of ["one worker", "two workers"].entries()) {
      const contenders = {
        undici: measure("undici", workers + 1),
        engine: measure("engine", workers + 1),
      };
      const figures = await inTurn(`openai, ${name}`, setting.rounds, contenders);
      const [value, baseline] = [median(figures.engine), median(figures.undici)];
      engines.push({
        ...{ name: `openai engine, ${inFlight} at once, ${name}`, value, unit, baseline },
        ...{ ratio: value / baseline, goal: 0.85 },
      });
    }
    const [run, loop] = await overServer(setting, server.baseUrl, requests, "openai, runs");
    return [
      ...engines,
      {
        ...{ name: `openai, run of ${requests} rows`, value: requests / run, unit },
        ...{ baseline: requests / loop, ratio: loop / run },
      },
    ];
  } finally {
    await server.stop();
  }
}
