import { createInterface } from "node:readline";
import { engineContext, runDependencies } from "../src/api/run-dependencies.ts";
import { thisProcess } from "../src/api/this-process.ts";
import { silentLogger } from "../src/foundation/logger.ts";
import { locateRun } from "../src/run/directory/locate.ts";
import type { WorkerHandle } from "../src/run/dispatch/dispatch.ts";
import type { ToWorker } from "../src/run/worker/protocol.ts";
import { workerInside } from "../src/run/worker/run-worker.ts";

// Stands where the bridge to a Ray cluster stands, so that the coordinator is measured alone: a
// cluster of many small nodes, each with a real worker, all of them in this process.
// BENCH_RAY_HOSTS=100 node ray-hosts.ts

const surroundings = thisProcess();
const workers = new Map<string, WorkerHandle>();
/** Lines of workers, which go together as they do through actors. */
const waiting = new Map<string, string[]>();

const nodes = Array.from({ length: Number(process.env.BENCH_RAY_HOSTS) }, (_, at) => ({
  ...{ id: `n${at}`, address: `10.0.0.${at}`, alive: true, labels: {}, drainsAt: null },
  resources: { CPU: 1 },
}));

const say = (message: object) => void process.stdout.write(`${JSON.stringify(message)}\n`);

function pass(host: string, line: string): void {
  const lines = waiting.get(host);
  if (lines) return void lines.push(line);
  waiting.set(host, [line]);
  setTimeout(() => {
    say({ type: "lines", host, lines: waiting.get(host) });
    waiting.delete(host);
  }, 1);
}

function start(host: string, [, location, , , , generation]: readonly string[]): void {
  const { id: node, address } = nodes[workers.size]!;
  const worker = workerInside({
    location: locateRun(location!),
    generation: Number(generation),
    dependencies: runDependencies(surroundings, silentLogger),
    engineContext: engineContext(surroundings, silentLogger),
  });
  workers.set(host, worker);
  worker.channel.onMessage((message) => pass(host, JSON.stringify(message)));
  say({ type: "host-ready", host, node, address });
  void worker.ended.then(() => {
    setTimeout(() => say({ type: "host-end", host, reason: "left with code 0", isLost: false }), 2);
  });
}

interface Message {
  type: string;
  host: string;
  lines: string[];
  start: { arguments: string[] };
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line) as Message;
  if (message.type === "cluster-open") say({ type: "cluster-ready", ray: "0", nodes });
  else if (message.type === "host-start") start(message.host, message.start.arguments);
  else if (message.type === "lines") {
    const { channel } = workers.get(message.host)!;
    for (const each of message.lines) channel.send(JSON.parse(each) as ToWorker);
  } else if (message.type === "host-kill") workers.get(message.host)?.kill();
}
// The process has workers that nobody stops any more.
process.kill(process.pid, "SIGKILL");
