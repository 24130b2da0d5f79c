import type { Random } from "../src/foundation/random.ts";
import type { KneeServerOptions, Work } from "./knee-server.ts";

/** Time of one run, in which the knee stands at each of its places for a quarter. */
export const runMs = 2_400_000;
const stageMs = runMs / 4;
const maxTokens = 1024;

/** A server, and what it is asked. */
export interface Scenario {
  name: string;
  server: Omit<KneeServerOptions, "time">;
  workOf(random: Random, nowMs: number): Work;
  /** The server tells its load. */
  hasMetrics?: boolean;
  /** Callers that share it, each with a pace of its own. Default 1. */
  callers?: number;
}

/** Stands at each of four places for a quarter of the run. */
function moving(first: number, second: number, third: number, last: number) {
  const places = [first, second, third, last];
  return (nowMs: number) => places[Math.min(3, Math.floor(nowMs / stageMs))]!;
}

/** Answers of a few tokens, and some of very many. */
function longTail(random: Random): Work {
  const normal =
    Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const tokens = Math.round(200 * Math.exp(1.1 * normal));
  const promptTokens = 200 + Math.round(400 * random.next());
  return { promptTokens, completionTokens: Math.min(maxTokens, Math.max(1, tokens)), maxTokens };
}

function even(random: Random): Work {
  return { promptTokens: 300, completionTokens: 190 + Math.round(20 * random.next()), maxTokens };
}

/** Like one another, and four times as long from the middle of a stage on. */
function growing(random: Random, nowMs: number): Work {
  const factor = nowMs < 1.5 * stageMs ? 1 : 4;
  const completionTokens = factor * Math.round(50 + 200 * random.next());
  return { promptTokens: 300 * factor, completionTokens, maxTokens };
}

/** One batch of a language model: quick alone, and together quicker until it is full. */
const gpu = { aloneTokensPerSecond: 60, halfSpeedAt: 64, overheadMs: 80 };
/** Somebody else's many GPUs: requests do not hinder one another. */
const hosted = { aloneTokensPerSecond: 60, halfSpeedAt: Number.POSITIVE_INFINITY, overheadMs: 80 };
const gpuKnee = moving(128, 48, 192, 96);
const hostedKnee = moving(60, 20, 120, 50);
const unlimited = () => Number.POSITIVE_INFINITY;

/** What servers do beyond their knees, and what requests are like. */
export const scenarios: readonly Scenario[] = [
  {
    name: "queue, long tail",
    server: { ...gpu, beyond: "queue", kneeAt: gpuKnee },
    workOf: longTail,
  },
  {
    name: "queue that is told",
    server: { ...gpu, beyond: "queue", kneeAt: gpuKnee },
    workOf: longTail,
    hasMetrics: true,
  },
  { name: "queue, even", server: { ...gpu, beyond: "queue", kneeAt: gpuKnee }, workOf: even },
  { name: "queue, growing", server: { ...gpu, beyond: "queue", kneeAt: gpuKnee }, workOf: growing },
  {
    name: "queue, 3 callers",
    server: { ...gpu, beyond: "queue", kneeAt: gpuKnee },
    workOf: longTail,
    callers: 3,
  },
  {
    name: "thrashing, long tail",
    server: { ...gpu, beyond: "thrash", kneeAt: gpuKnee },
    workOf: longTail,
  },
  {
    name: "thrashing, 3 callers",
    server: { ...gpu, beyond: "thrash", kneeAt: gpuKnee },
    workOf: longTail,
    callers: 3,
  },
  {
    name: "429, long tail",
    server: { ...hosted, beyond: "refuse", kneeAt: hostedKnee },
    workOf: longTail,
  },
  {
    name: "429 with Retry-After",
    server: { ...hosted, beyond: "refuse", kneeAt: hostedKnee, retryAfterMs: 1000 },
    workOf: longTail,
  },
  {
    name: "429, 3 callers",
    server: { ...hosted, beyond: "refuse", kneeAt: hostedKnee },
    workOf: longTail,
    callers: 3,
  },
  {
    name: "tokens a minute, told",
    server: {
      ...{ ...hosted, beyond: "queue" as const, kneeAt: unlimited, retryAfterMs: 1000 },
      tokensPerMinuteAt: moving(600_000, 200_000, 1_000_000, 400_000),
    },
    workOf: longTail,
  },
];
