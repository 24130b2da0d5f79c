import { join } from "node:path";
import { Pool } from "undici";
import { modelOptions } from "../src/engines/model-options.ts";
import { openEngine } from "../src/engines/registry.ts";
import { sleep, systemClock } from "../src/foundation/clock.ts";
import { greedyParameters } from "../src/foundation/inference.ts";
import { silentLogger } from "../src/foundation/logger.ts";
import { systemRandom } from "../src/foundation/random.ts";
import type { BenchResult } from "./result.ts";
import { startServer } from "./server.ts";
import type { BenchSetting } from "./setting.ts";

const fixedLimits = [6, 12, 24, 48];
const knees = ["24", "12"];
const parameters = { ...greedyParameters, maxNewTokens: 256, seed: 0 };

interface Answered {
  perSecond: number;
  refusedShare: number;
}

/** Asks one question; a refused one is asked again until it is answered. */
export interface Asker {
  /** Questions to keep under way. */
  readonly width: number;
  ask(index: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * The same against a real process over HTTP, in real time: answers a second of engine `openai`,
 * which finds its limit, and of a loop over undici with the best of fixed limits.
 */
export async function benchAdaptiveHttp({ isSmall }: BenchSetting): Promise<BenchResult[]> {
  const stageMs = isSmall ? 500 : 6000;
  const results: BenchResult[] = [];
  for (const beyond of ["queue", "refuse"]) {
    const found = await answeredBy(beyond, stageMs, engineAsker);
    const fixed = [];
    for (const limit of fixedLimits) {
      const run = await answeredBy(beyond, stageMs, (baseUrl) => undiciAsker(baseUrl, limit));
      fixed.push({ limit, ...run });
    }
    const [best] = fixed.sort((a, b) => b.perSecond - a.perSecond);
    const [value, baseline] = [found.perSecond, best!.perSecond];
    const name = `over HTTP, ${beyond === "queue" ? "queue" : "429"}`;
    results.push({
      ...{ name: `${name}, best fixed ${best!.limit}`, value, unit: "answers/s", baseline },
      ...{ ratio: value / baseline, goal: 0.95 },
    });
    if (beyond === "refuse") results.push(refusedResult(name, found, best!));
  }
  return results;
}

function refusedResult(name: string, found: Answered, best: Answered): BenchResult {
  const [value, baseline] = [100 * found.refusedShare, 100 * best.refusedShare];
  const ratio = baseline / Math.max(value, 0.01);
  return { name: `${name}, refused`, value, unit: "%", baseline, ratio, atMost: 1 };
}

/** Keeps a server of its own busy for two stages, between which its knee moves. */
async function answeredBy(
  beyond: string,
  stageMs: number,
  open: (baseUrl: string) => Asker | Promise<Asker>,
): Promise<Answered> {
  const server = await startServer([
    join(import.meta.dirname, "knee-process.ts"),
    beyond,
    ...knees,
  ]);
  const asker = await open(server.baseUrl);
  let answered = 0;
  let isOver = false;
  let inFlight = 0;
  let next = 0;
  const startedMs = performance.now();
  const pump = () => {
    while (!isOver && inFlight < asker.width) {
      inFlight++;
      asker.ask(next++).then(() => {
        inFlight--;
        answered++;
        pump();
      }, fail);
    }
  };
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  pump();
  await Promise.race([sleep(systemClock, stageMs), failed]);
  await fetch(new URL("/moved", server.baseUrl));
  await Promise.race([sleep(systemClock, stageMs), failed]);
  isOver = true;
  const seconds = (performance.now() - startedMs) / 1000;
  failed.catch(() => {});
  const counts = await fetch(new URL("/refused", server.baseUrl));
  const { refused } = (await counts.json()) as { refused: number };
  await asker.close();
  await server.stop();
  return { perSecond: answered / seconds, refusedShare: refused / (answered + refused) };
}

function messagesOf(index: number) {
  return [{ role: "user" as const, content: `question ${index}` }];
}

/** Asks through the engine `openai`, which finds its limit. */
export async function engineAsker(baseUrl: string): Promise<Asker> {
  const engine = await openEngine(
    modelOptions.parse({ engine: "openai", name: "bench", baseUrl }),
    {
      ...{ clock: systemClock, random: systemRandom, logger: silentLogger, environment: {} },
      ...{ homeDirectory: "/nonexistent", hostCommand: [], killProcess() {} },
    },
  );
  const { signal } = new AbortController();
  return {
    get width() {
      return engine.capacity;
    },
    async ask(index) {
      const messages = messagesOf(index);
      const request = { messages, parameters, origin: { index, promptName: "p" } };
      await engine.infer(request, signal);
    },
    close: () => engine.close(),
  };
}

/** Asks as a plain loop does: so many at once, a refused one again after the wait it is told. */
export function undiciAsker(baseUrl: string, width: number): Asker {
  const url = new URL(baseUrl);
  const pool = new Pool(url.origin, { connections: width });
  const path = `${url.pathname}/chat/completions`;
  const headers = { "content-type": "application/json" };
  return {
    width,
    async ask(index) {
      const body = JSON.stringify({ model: "bench", messages: messagesOf(index) });
      for (let tries = 0; ; tries++) {
        const reply = await pool.request({ path, method: "POST", headers, body });
        await reply.body.text();
        if (reply.statusCode === 200) return;
        const toldMs = 1000 * Number(reply.headers["retry-after"] ?? 0);
        const ownMs = Math.random() * Math.min(8000, 500 * 2 ** tries);
        await sleep(systemClock, Math.max(toldMs, ownMs));
      }
    },
    close: () => pool.destroy(),
  };
}
