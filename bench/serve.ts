import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { sha256Hex } from "../src/foundation/hashing.ts";
import { engineContext, findLlamaFiles } from "../test/integration/llama-files.ts";
import { serverProgram, startLlamaServer } from "./llama-server.ts";
import { runProgram } from "./program.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { benchServeBulk } from "./serve-bulk.ts";
import type { Load } from "./serve-load.ts";
import { startServer } from "./server.ts";
import { send, startSluice } from "./serving.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const baselineProgram = join(import.meta.dirname, "serve-baseline.ts");
const engineProgram = join(import.meta.dirname, "serve-llama-baseline.ts");
const serviceMs = 100;
const slots = 16;

/** `sluice serve` under the loads of online use, each beside its baseline. */
export async function benchServe(setting: BenchSetting): Promise<BenchResult[]> {
  return [
    ...(await withoutWork(setting)),
    ...(await alone(setting)),
    ...(await overload(setting)),
    await besideACrowd(setting),
    await idleConnections(setting),
    await memory(setting),
    ...(await benchServeBulk(setting)),
  ];
}

/**
 * Streams of a real model, 16 at once, beside the same engine without a server; and the time to the
 * first piece at half of that rate, at random times, beside llama-server. Empty without the model.
 */
export async function benchServeLlama(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  if (files.missing !== undefined) {
    console.log(`serve-llama: skipped, ${files.missing}`);
    return [];
  }
  const [connections, maxTokens] = [16, 64];
  const requests = setting.isSmall ? 16 : 64;
  const home = { SLUICE_HOME: engineContext.homeDirectory };
  const sluice = await startSluice(
    setting,
    { models: { bench: { engine: "llama", name: files.modelPath } } },
    home,
  );
  const load: Load = { seconds: 600, requests, connections, maxTokens, isStream: true };
  try {
    await send(sluice.baseUrl, { ...load, requests: connections });
    const plain = [files.modelPath, requests, connections, maxTokens].map(String);
    const figures = await inTurn("serve llama", setting.rounds, {
      engine: async () => {
        const { stdout } = await runProgram([engineProgram, ...plain]);
        return (JSON.parse(stdout) as { tokensPerSecond: number }).tokensPerSecond;
      },
      sluice: async () => {
        const { tokens, seconds } = await send(sluice.baseUrl, load);
        return tokens / seconds;
      },
    });
    const [value, baseline] = [median(figures.sluice), median(figures.engine)];
    const name = `serve: streams of llama, ${connections} at once, beside the engine alone`;
    const rate = { name, value, unit: "tokens/s", baseline, ratio: value / baseline, goal: 0.95 };
    return [
      rate,
      ...(await firstPieces(setting, files.modelPath, sluice.baseUrl, value / maxTokens)),
    ];
  } finally {
    await sluice.stop();
  }
}

async function firstPieces(
  setting: BenchSetting,
  modelPath: string,
  baseUrl: string,
  peakPerSecond: number,
): Promise<BenchResult[]> {
  const program = serverProgram();
  if (program === undefined) return [];
  const server = await startLlamaServer(program, ["-m", modelPath, "-np", "32", "-c", "65536"]);
  const load: Load = {
    seconds: setting.isSmall ? 5 : 40,
    requestsPerSecond: peakPerSecond / 2,
    ...{ maxTokens: 64, isStream: true },
  };
  try {
    const figures = await inTurn("serve first pieces", setting.rounds, {
      peer: async () => (await send(`${server.baseUrl}/v1`, load)).firstPieceP50Ms,
      sluice: async () => (await send(baseUrl, load)).firstPieceP50Ms,
    });
    const [value, baseline] = [median(figures.sluice), median(figures.peer)];
    const name = "serve: p50 to the first piece of a stream, beside llama-server";
    return [{ name, value, unit: "ms", baseline, ratio: baseline / value }];
  } finally {
    await server.stop();
  }
}

async function withoutWork(setting: BenchSetting): Promise<BenchResult[]> {
  const seconds = setting.isSmall ? 1 : 5;
  const bare = () => startServer([baselineProgram]);
  const sluice = () =>
    startSluice(setting, { models: { bench: { engine: "fake", capacity: 1024 } } });
  const results: BenchResult[] = [];
  for (const connections of [16, 64]) {
    const load = { seconds, connections };
    const figures = await inTurn(`serve ${connections}`, setting.rounds, {
      bare: () => ratePerStart(bare, load),
      sluice: () => ratePerStart(sluice, load),
    });
    const [value, baseline] = [median(figures.sluice), median(figures.bare)];
    const name = `serve: chats without work, ${connections} at once, beside bare node:http`;
    const goal = connections === 64 ? { goal: 0.7 } : {};
    results.push({ name, value, unit: "requests/s", baseline, ratio: value / baseline, ...goal });
  }
  return results;
}

/** Of a warm server of its own: processes of one build differ by a tenth. */
async function ratePerStart(
  start: () => Promise<{ baseUrl: string; stop(): Promise<void> }>,
  load: Load,
): Promise<number> {
  const server = await start();
  try {
    await send(server.baseUrl, load);
    return (await send(server.baseUrl, load)).answeredPerSecond;
  } finally {
    await server.stop();
  }
}

/** One caller alone: what the server adds to the time of the model, with and without batches. */
async function alone(setting: BenchSetting): Promise<BenchResult[]> {
  const module = join(dataDirectory, "slow-predictor.mjs");
  writeFileSync(
    module,
    `export const predict = async (rows) => {
      await new Promise((resolve) => setTimeout(resolve, ${serviceMs}));
      return rows.map(() => "amber anchor apple");
    };`,
  );
  const ways: { name: string; model: object; path?: string }[] = [
    { name: "", model: { engine: "fake", latencyMs: serviceMs } },
    {
      ...{ name: " with batches", path: "/predictions/bench" },
      model: { engine: "predictor", module, maxBatchRows: slots },
    },
  ];
  const results: BenchResult[] = [];
  for (const { name, model, path } of ways) {
    results.push(await aloneWith(setting, { models: { bench: model } }, name, path));
  }
  return results;
}

async function aloneWith(
  setting: BenchSetting,
  keys: object,
  what: string,
  path?: string,
): Promise<BenchResult> {
  const bare = await startServer([baselineProgram, String(serviceMs)]);
  const sluice = await startSluice(setting, keys);
  const load = { seconds: setting.isSmall ? 1 : 10, connections: 1 };
  const sluiceUrl = path === undefined ? sluice.baseUrl : new URL(sluice.baseUrl).origin;
  try {
    const figures = await inTurn(`serve alone${what}`, setting.rounds, {
      bare: async () => (await send(bare.baseUrl, load)).p50Ms,
      sluice: async () => (await send(sluiceUrl, { ...load, ...(path && { path }) })).p50Ms,
    });
    const [took, baseline] = [median(figures.sluice), median(figures.bare)];
    const name = `serve: p50 of one caller beyond bare node:http, a model of ${serviceMs} ms${what}`;
    return {
      name,
      value: took - baseline,
      unit: "ms",
      baseline,
      ratio: baseline / took,
      atMost: 1,
    };
  } finally {
    await Promise.all([bare.stop(), sluice.stop()]);
  }
}

/** Requests at random times, at capacity and at twice that. */
async function overload(setting: BenchSetting): Promise<BenchResult[]> {
  const seconds = setting.isSmall ? 2 : 120;
  const model = { engine: "fake", latencyMs: serviceMs, capacity: slots };
  const server = await startSluice(setting, {
    models: { bench: model },
    limits: { maxQueueWaitMs: serviceMs },
  });
  try {
    const peak = await send(server.baseUrl, { seconds: seconds / 8, connections: slots });
    const rate = peak.answeredPerSecond;
    const full = await send(server.baseUrl, { seconds: seconds / 2, requestsPerSecond: rate });
    const twice = await send(server.baseUrl, { seconds, requestsPerSecond: 2 * rate });
    const strange = Object.keys(twice.refused).filter((status) => status !== "429");
    if (strange.length > 0 || twice.withoutRetryAfter > 0) {
      throw new Error(
        `refused by ${JSON.stringify(twice.refused)}, ${twice.withoutRetryAfter} bare`,
      );
    }
    const of = "serve: at twice the capacity";
    return [
      {
        ...{ name: `${of}, answered of the peak`, value: twice.answeredPerSecond },
        ...{ unit: "requests/s", baseline: rate, ratio: twice.answeredPerSecond / rate, goal: 0.9 },
      },
      {
        ...{ name: `${of}, p99 beside that at capacity`, value: twice.p99Ms, unit: "ms" },
        ...{ baseline: full.p99Ms, ratio: full.p99Ms / twice.p99Ms, goal: 0.5 },
      },
    ];
  } finally {
    await server.stop();
  }
}

/** A caller alone, and beside one that has 1,000 requests in flight. */
async function besideACrowd(setting: BenchSetting): Promise<BenchResult> {
  const tokens = ["crowd", "alone"].map((name) => ({ name, sha256: sha256Hex(`${name}-token`) }));
  const model = { engine: "fake", latencyMs: serviceMs, capacity: slots };
  const server = await startSluice(setting, { models: { bench: model }, tokens });
  const seconds = setting.isSmall ? 1 : 10;
  try {
    const one = { seconds, connections: 1, token: "alone-token" };
    const before = await send(server.baseUrl, one);
    const crowd = send(server.baseUrl, {
      ...{ seconds: seconds + 2, connections: 1000, token: "crowd-token" },
    });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const beside = await send(server.baseUrl, one);
    await crowd;
    const name = "serve: p50 beside a caller with 1,000 requests in flight";
    const [value, baseline] = [beside.p50Ms, before.p50Ms];
    return { name, value, unit: "ms", baseline, ratio: baseline / value, goal: 0.67 };
  } finally {
    await server.stop();
  }
}

async function idleConnections(setting: BenchSetting): Promise<BenchResult> {
  const server = await startSluice(setting, { models: { bench: { engine: "fake" } } });
  const load = { seconds: setting.isSmall ? 1 : 5, connections: 16 };
  try {
    const before = await send(server.baseUrl, load);
    const sockets = await openSockets(server.baseUrl, setting.isSmall ? 100 : 5000);
    const beside = await send(server.baseUrl, load);
    const closed = sockets.filter(({ readyState }) => readyState !== "open");
    if (closed.length > 0) throw new Error(`${closed.length} idle connections were closed`);
    for (const socket of sockets) socket.destroy();
    const name = "serve: p50 beside 5,000 idle connections";
    const [value, baseline] = [beside.p50Ms, before.p50Ms];
    return { name, value, unit: "ms", baseline, ratio: baseline / value, goal: 0.67 };
  } finally {
    await server.stop();
  }
}

async function memory(setting: BenchSetting): Promise<BenchResult> {
  const requests = setting.isSmall ? 1000 : 200_000;
  const server = await startSluice(setting, { models: { bench: { engine: "fake" } } });
  const load = { seconds: 600, connections: 64 };
  try {
    await send(server.baseUrl, { ...load, requests: requests / 10 });
    const baseline = residentMegabytes(server.pid);
    await send(server.baseUrl, { ...load, requests });
    const value = residentMegabytes(server.pid);
    const name = `serve: memory after ${requests} requests, beside a tenth of them`;
    return { name, value, unit: "MB", baseline, ratio: baseline / value, goal: 0.9 };
  } finally {
    await server.stop();
  }
}

async function openSockets(baseUrl: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(baseUrl);
  const sockets: Socket[] = [];
  for (let at = 0; at < count; at++) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    await once(socket, "connect");
    sockets.push(socket);
  }
  return sockets;
}

function residentMegabytes(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!;
  return Number(kilobytes) / 1024;
}
