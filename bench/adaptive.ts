import { openPace, type Pace } from "../src/engines/openai/pace/pace.ts";
import { silentLogger } from "../src/foundation/logger.ts";
import { type Random, seededRandom } from "../src/foundation/random.ts";
import { FixedCaller, PacedCaller } from "./adaptive-callers.ts";
import { benchAdaptiveHttp } from "./adaptive-http.ts";
import { runMs, type Scenario, scenarios } from "./adaptive-scenarios.ts";
import { EventTime, KneeServer } from "./knee-server.ts";
import type { BenchResult } from "./result.ts";
import { median } from "./rounds.ts";
import type { BenchSetting } from "./setting.ts";

const fixedLimits = [4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384];

/** What a run got done. */
interface Outcome {
  tokensPerSecond: number;
  refusedShare: number;
}

/**
 * Tokens a second that the pace of engine `openai` gets from servers whose knee it does not know
 * and that moves, on a virtual clock. The baseline is the best of fixed limits, found by a sweep
 * with the same requests; such a caller tries a refused request again after a growing wait.
 */
export async function benchAdaptive(setting: BenchSetting): Promise<BenchResult[]> {
  const seeds = setting.isSmall ? [1] : [1, 2, 3];
  const results: BenchResult[] = [];
  for (const scenario of scenarios) {
    const sweep = await Promise.all(
      fixedLimits.map(async (limit) => ({ limit, runs: await runsOf(scenario, seeds, limit) })),
    );
    const [best] = sweep.sort((a, b) => speedOf(b.runs) - speedOf(a.runs));
    const found = await runsOf(scenario, seeds);
    const [value, baseline] = [speedOf(found), speedOf(best!.runs)];
    const name = `${scenario.name}, best fixed ${best!.limit}`;
    results.push({ name, value, unit: "tokens/s", baseline, ratio: value / baseline, goal: 0.95 });
    const [refused, refusedFixed] = [refusedOf(found), refusedOf(best!.runs)];
    if (refused === 0 && refusedFixed === 0) continue;
    results.push({
      ...{ name: `${scenario.name}, refused`, value: refused, unit: "%", baseline: refusedFixed },
      ...{ ratio: refusedFixed / Math.max(refused, 0.01), atMost: 1 },
    });
  }
  return [...results, ...(await benchAdaptiveHttp(setting))];
}

function speedOf(runs: readonly Outcome[]): number {
  return median(runs.map(({ tokensPerSecond }) => tokensPerSecond));
}

function refusedOf(runs: readonly Outcome[]): number {
  return 100 * Math.max(...runs.map(({ refusedShare }) => refusedShare));
}

function runsOf(scenario: Scenario, seeds: readonly number[], limit?: number): Promise<Outcome[]> {
  return Promise.all(seeds.map((seed) => run(scenario, seed, limit)));
}

/** One run, with a fixed limit or with what the pace finds. */
async function run(scenario: Scenario, seed: number, limit?: number): Promise<Outcome> {
  const time = new EventTime();
  const server = new KneeServer({ ...scenario.server, time });
  const callers = Array.from({ length: scenario.callers ?? 1 }, (_, at) => {
    const random = seededRandom(1000 * seed + at);
    const workOf = () => scenario.workOf(random, time.monotonic());
    const chance = seededRandom(seed - 1000 * at);
    return limit === undefined
      ? new PacedCaller(server, workOf, paceFor(scenario, server, time, chance))
      : new FixedCaller(server, workOf, limit, time, chance);
  });
  for (const caller of callers) caller.pump();
  await time.runUntil(runMs);
  const tokens = callers.reduce((sum, caller) => sum + caller.tokens, 0);
  const answered = callers.reduce((sum, caller) => sum + caller.answered, 0);
  return {
    tokensPerSecond: tokens / (runMs / 1000),
    refusedShare: server.refused / (answered + server.refused),
  };
}

function paceFor(
  { hasMetrics = false }: Scenario,
  server: KneeServer,
  clock: EventTime,
  random: Random,
): Pace {
  return openPace({
    ...{ clock, random, logger: silentLogger, endpoint: "http://127.0.0.1:8000/v1" },
    ...(hasMetrics && {
      readPage: async (path: string) => (path === "/metrics" ? server.metrics : undefined),
    }),
  });
}
