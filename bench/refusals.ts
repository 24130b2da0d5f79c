import { join } from "node:path";
import { type Asker, engineAsker, undiciAsker } from "./adaptive-http.ts";
import type { BenchResult } from "./result.ts";
import { median } from "./rounds.ts";
import { startServer } from "./server.ts";
import type { BenchSetting } from "./setting.ts";

const places = 24;
const fixedLimits = [16, 24, 32];

/** Seconds of Retry-After, and of how many requests one is refused by chance. */
const servers: readonly { name: string; retryAfter: number; oneIn?: number }[] = [
  { name: "0 s", retryAfter: 0 },
  { name: "1 s", retryAfter: 1 },
  { name: "5 s", retryAfter: 5 },
  { name: "20 s", retryAfter: 20 },
  { name: "1 s, one in seven", retryAfter: 1, oneIn: 7 },
];

/**
 * Seconds for a fixed number of questions to a server process of 24 places that refuses what is
 * beyond them, and says when to come again: engine `openai`, which finds its limit, against a loop
 * over undici with the best of fixed limits, which it does not know beforehand.
 */
export async function benchRefusals(setting: BenchSetting): Promise<BenchResult[]> {
  const questions = setting.isSmall ? 60 : 1500;
  const results: BenchResult[] = [];
  for (const server of servers) {
    const ofRounds = async (open: (baseUrl: string) => Asker | Promise<Asker>) => {
      const seconds: number[] = [];
      for (let round = 0; round < setting.rounds; round++) {
        seconds.push(await secondsOf(server, questions, open));
      }
      return median(seconds);
    };
    const value = await ofRounds(engineAsker);
    const fixed: { limit: number; seconds: number }[] = [];
    for (const limit of fixedLimits) {
      // Beyond the places a loop waits as long as it is told, again and again.
      if (limit > places && (setting.isSmall || server.retryAfter > 1)) continue;
      fixed.push({ limit, seconds: await ofRounds((baseUrl) => undiciAsker(baseUrl, limit)) });
    }
    const [best] = fixed.sort((a, b) => a.seconds - b.seconds);
    results.push({
      name: `${places} places, Retry-After ${server.name}, best fixed ${best!.limit}`,
      ...{ value, unit: "s", baseline: best!.seconds, ratio: best!.seconds / value, goal: 0.9 },
    });
  }
  return results;
}

async function secondsOf(
  { retryAfter, oneIn }: (typeof servers)[number],
  questions: number,
  open: (baseUrl: string) => Asker | Promise<Asker>,
): Promise<number> {
  const program = join(import.meta.dirname, "knee-process.ts");
  const knees = [places, places].map(String);
  const chance = oneIn === undefined ? [] : [String(oneIn)];
  const server = await startServer([program, "refuse", ...knees, String(retryAfter), ...chance]);
  const asker = await open(server.baseUrl);
  const startedMs = performance.now();
  await allAnswered(asker, questions);
  const seconds = (performance.now() - startedMs) / 1000;
  await asker.close();
  await server.stop();
  return seconds;
}

/** Keeps as many questions under way as the asker wants, until each has its answer. */
function allAnswered(asker: Asker, questions: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let [next, answered] = [0, 0];
  const pump = () => {
    while (next < questions && next - answered < asker.width) {
      asker.ask(next++).then(() => {
        if (++answered === questions) resolve();
        else pump();
      }, reject);
    }
  };
  pump();
  return promise;
}
