import { join } from "node:path";
import { findPeer } from "./peers.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import type { Served } from "./serve-load.ts";
import { type ServerProcess, startAtPort, startServer } from "./server.ts";
import { send, startSluice } from "./serving.ts";
import type { BenchSetting } from "./setting.ts";
import { archiveKeys, findTorchServe, makeArchive, startTorchServe } from "./torchserve.ts";

const baselineProgram = join(import.meta.dirname, "serve-baseline.ts");
const rayProgram = join(import.meta.dirname, "serve-ray.py");
const widths = [1, 64];
const goalWidth = 64;

/** A server without work, and where it takes the requests. */
interface Contender {
  start(): Promise<Pick<ServerProcess, "baseUrl" | "stop">>;
  /** Default: that of chats. */
  path?: string;
}

/** What Sluice serves, and what that is compared with: the best of the peers with such a name. */
const comparisons: { own: string; peer: string; goal?: number }[] = [
  { own: "sluice, chats", peer: "node:http", goal: 0.7 },
  { own: "sluice, chats", peer: "fastify" },
  { own: "sluice, chats", peer: "torchserve", goal: 2 },
  { own: "sluice, predictions", peer: "torchserve", goal: 2 },
  { own: "sluice, the same archive", peer: "torchserve" },
  { own: "sluice, chats", peer: "ray", goal: 50 },
];

/**
 * Requests a second to a model without work, beside servers of Node and those of models, each alone
 * on the machine while it is measured. Peers that are not installed are left out.
 */
export async function benchServePeers(setting: BenchSetting): Promise<BenchResult[]> {
  const contenders = await contendersOf(setting);
  const figures = await inTurn(
    "serve-peers",
    setting.rounds,
    Object.fromEntries(
      Object.entries(contenders).map(([name, contender]) => [
        name,
        () => measure(setting, name, contender),
      ]),
    ),
  );
  return widths.flatMap((width, at) => {
    const rates = Object.entries(figures).map(
      ([name, rounds]) => [name, median(rounds.map((round) => round[at]!))] as const,
    );
    const best = (start: string) =>
      Math.max(...rates.filter(([name]) => name.startsWith(start)).map(([, rate]) => rate));
    return comparisons
      .filter(({ own, peer }) => Math.min(best(own), best(peer)) > 0)
      .map(({ own, peer, goal }) => ({
        name: `serve-peers: ${own}, ${width} at once; ${peer}`,
        ...{ value: best(own), unit: "requests/s", baseline: best(peer) },
        ratio: best(own) / best(peer),
        ...(width === goalWidth && goal !== undefined && { goal }),
      }));
  });
}

async function contendersOf(setting: BenchSetting): Promise<Record<string, Contender>> {
  const fake = { models: { bench: { engine: "fake", capacity: 1024 } } };
  const contenders: Record<string, Contender> = {
    "node:http": { start: () => startServer([baselineProgram]) },
    fastify: { start: () => startServer([baselineProgram, "fastify"]) },
    "sluice, chats": { start: () => startSluice(setting, fake) },
    "sluice, predictions": { start: () => startSluice(setting, fake), path: "/predictions/bench" },
  };
  const found = findTorchServe();
  if ("missing" in found) console.log(`serve-peers: without TorchServe, ${found.missing}`);
  else {
    const path = "/predictions/bench";
    await makeArchive(setting);
    contenders["sluice, the same archive"] = {
      start: () => startSluice(setting, archiveKeys(found.python)),
      path,
    };
    for (const maxBatchDelay of [10, 100]) {
      for (const isLogging of [false, true]) {
        const name = `torchserve, delay ${maxBatchDelay} ms, ${isLogging ? "default" : "error"} log`;
        const start = () => startTorchServe(found, { maxBatchDelay, isLogging });
        contenders[name] = { start, path };
      }
    }
  }
  const ray = findPeer("ray-data");
  if (ray === undefined) console.log("serve-peers: without Ray, run npm run peers -- ray-data");
  else contenders.ray = { start: () => startRay(join(ray, "environment/bin/python")) };
  return contenders;
}

function startRay(python: string): Promise<ServerProcess> {
  return startAtPort({
    program: python,
    argsAt: (port) => [rayProgram, String(port)],
    // Its workers would else have a lower priority than the programs beside them.
    environment: { RAY_worker_niceness: "0", RAY_ADDRESS: "", PYTHONPATH: "" },
    readyPath: "/",
  });
}

/** Requests a second at each width, of a server that has been warmed. */
async function measure(
  { isSmall }: BenchSetting,
  name: string,
  { start, path }: Contender,
): Promise<number[]> {
  const server = await start();
  const seconds = isSmall ? 1 : 4;
  const baseUrl = path === undefined ? server.baseUrl : new URL(server.baseUrl).origin;
  const ask = async (connections: number) => {
    const served = await send(baseUrl, {
      seconds,
      connections,
      ...(path !== undefined && { path }),
    });
    assertAnswered(name, served);
    return served;
  };
  const rates: number[] = [];
  try {
    await ask(goalWidth);
    for (const width of widths) {
      const { answeredPerSecond, p50Ms, p99Ms } = await ask(width);
      const times = `p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms`;
      console.log(
        `${name}, ${width} at once: ${answeredPerSecond.toFixed(0)} requests/s, ${times}`,
      );
      rates.push(answeredPerSecond);
    }
    return rates;
  } finally {
    await server.stop();
  }
}

function assertAnswered(name: string, { answered, refused }: Served): void {
  if (answered > 0 && Object.keys(refused).length === 0) return;
  throw new Error(`${name}: ${answered} answers, refused ${JSON.stringify(refused)}`);
}
