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
    const measure = (way: "engine" | "undici") => async () => {
      const args = [server.baseUrl, `${requests}`, `${inFlight}`];
      const { stdout } = await runProgram([client, way, ...args]);
      return (JSON.parse(stdout) as { perSecond: number }).perSecond;
    };
    const contenders = { undici: measure("undici"), engine: measure("engine") };
    const figures = await inTurn("openai, engine", setting.rounds, contenders);
    const [engine, undici] = [median(figures.engine), median(figures.undici)];
    const [run, loop] = await overServer(setting, server.baseUrl, requests, "openai, runs");
    const unit = "requests/s";
    return [
      {
        ...{ name: `openai engine, ${inFlight} at once`, value: engine, unit, baseline: undici },
        ...{ ratio: engine / undici, goal: 0.8 },
      },
      {
        ...{ name: `openai, run of ${requests} rows`, value: requests / run, unit },
        ...{ baseline: requests / loop, ratio: loop / run },
      },
    ];
  } finally {
    await server.stop();
  }
}
