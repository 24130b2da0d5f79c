import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { engineContext, findLlamaFiles } from "../test/integration/llama-files.ts";
import { serverProgram, startLlamaServer } from "./llama-server.ts";
import type { BenchResult } from "./result.ts";
import { inTurn } from "./rounds.ts";
import type { Served } from "./serve-load.ts";
import { type PausableServer, startAtPort } from "./server.ts";
import { send, startSluice } from "./serving.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";
import { arrivalsOf, type Replay, readTraces, type Trace } from "./traces.ts";
import { findVllm, type Vllm } from "./vllm.ts";

/** Parts of the capacity that are offered. */
const shares = [0.5, 0.8];
const contextTokens = 2048;
/** Requests sent at once to find the capacity. */
const requestsAtOnce = 64;

type Server = Pick<PausableServer, "baseUrl" | "stop"> & Partial<PausableServer>;

/**
 * Streams of the embedded model that arrive as in published traces, whatever the servers do: the
 * time to the first token of engine `llama` beside engine `openvino`, llama-server and vLLM, each
 * with the same arrivals, prompts and token counts. All are loaded at once, and each is asked
 * alone, once. Empty without traces.
 */
export async function benchServeArrivals(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  const traces = readTraces();
  if (files.missing !== undefined || traces.length === 0) {
    console.log(`serve-arrivals: skipped, ${files.missing ?? "there are no traces"}`);
    return [];
  }
  const servers: Record<string, Server> = {};
  try {
    servers.sluice = await startEngine(setting, "llama", files.modelPath);
    servers["sluice with openvino"] = await startEngine(setting, "openvino", files.modelPath);
    Object.assign(servers, await startPeers(files.modelPath));
    const results: BenchResult[] = [];
    for (const trace of traces) results.push(...(await replay(setting, trace, servers)));
    return results;
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
  }
}

function startEngine(setting: BenchSetting, engine: string, name: string): Promise<Server> {
  return startSluice(
    setting,
    { models: { bench: { engine, name } }, dataDirectory: `arrivals-${engine}` },
    { SLUICE_HOME: engineContext.homeDirectory },
  );
}

async function startPeers(modelPath: string): Promise<Record<string, Server>> {
  const peers: Record<string, Server> = {};
  const program = serverProgram();
  if (program === undefined) console.log("serve-arrivals: without llama-server, run npm run peers");
  else {
    const slots = ["-np", "32", "-c", String(32 * contextTokens)];
    const best = ["-ub", "1024", "--cache-reuse", "64"];
    const server = await startLlamaServer(program, ["-m", modelPath, ...slots, ...best]);
    peers["llama-server"] = { ...server, baseUrl: `${server.baseUrl}/v1` };
  }
  const vllm = findVllm();
  if (vllm === undefined) console.log("serve-arrivals: without vLLM, run npm run peers -- vllm");
  else {
    const server = await startVllm(vllm);
    peers.vllm = { ...server, baseUrl: `${server.baseUrl}/v1` };
    // It looks for work all the time, which takes most of a core.
    server.pause();
  }
  return peers;
}

function startVllm({ python, model, environment }: Vllm): Promise<PausableServer> {
  return startAtPort({
    program: python,
    argsAt: (port) => [
      ...["-m", "vllm.entrypoints.openai.api_server", "--model", model],
      ...["--served-model-name", "bench", "--max-model-len", String(contextTokens)],
      ...["--host", "127.0.0.1", "--port", String(port), "--disable-uvicorn-access-log"],
    ],
    environment: { ...environment, VLLM_CPU_OMP_THREADS_BIND: "0-1" },
    readyPath: "/health",
  });
}

async function replay(
  { isSmall }: BenchSetting,
  trace: Trace,
  servers: Readonly<Record<string, Server>>,
): Promise<BenchResult[]> {
  const seconds = isSmall ? 10 : 50;
  const ask = (name: string, how: Replay) => sendArrivals(servers[name]!, trace, how);
  const atOnce = { count: isSmall ? 8 : requestsAtOnce, perSecond: 1e6, salt: 0 };
  for (const name of Object.keys(servers)) await ask(name, { ...atOnce, count: 4, salt: 1 });
  const { answeredPerSecond: capacity } = await ask("sluice", atOnce);
  console.log(
    `${trace.name}: Sluice answers ${capacity.toFixed(2)} requests/s if all come at once`,
  );
  const results: BenchResult[] = [];
  for (const [at, share] of shares.entries()) {
    const perSecond = share * capacity;
    const how = { count: Math.max(2, Math.round(perSecond * seconds)), perSecond, salt: 2 + at };
    const contenders = Object.keys(servers).map((name) => [name, () => ask(name, how)]);
    const label = `serve-arrivals, ${trace.name} at ${share}`;
    const figures = (await inTurn(label, 1, Object.fromEntries(contenders))) as Record<
      string,
      Served[]
    >;
    const { sluice, ...peers } = figures;
    for (const [name, [served]] of Object.entries(figures)) show(`${label}, ${name}`, served!);
    for (const [name, [peer]] of Object.entries(peers)) {
      const [value, baseline] = [sluice![0]!.firstPieceP50Ms, peer!.firstPieceP50Ms];
      const what = `${label} of capacity, p50 to the first token; ${name}`;
      results.push({ name: what, value, unit: "ms", baseline, ratio: baseline / value });
    }
  }
  return results;
}

async function sendArrivals(
  { baseUrl, resume, pause }: Server,
  trace: Trace,
  how: Replay,
): Promise<Served> {
  const folder = join(dataDirectory, "serve");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "arrivals.jsonl");
  const lines = arrivalsOf(trace, how).map((each) => JSON.stringify(each));
  writeFileSync(file, `${lines.join("\n")}\n`);
  resume?.();
  try {
    return await send(baseUrl, { seconds: 0, arrivals: file });
  } finally {
    pause?.();
  }
}

function show(label: string, served: Served): void {
  const ms = (value: number) => value.toFixed(0);
  const refused = Object.entries(served.refused).map(([status, times]) => `${times} × ${status}`);
  const { firstPieceP50Ms, firstPieceP90Ms, firstPieceP99Ms, tokenP50Ms, tokenP99Ms } = served;
  const facts = [
    `${served.answered} answered of ${served.promptTokens} + ${served.tokens} tokens`,
    `in ${served.seconds.toFixed(1)} s`,
    `refused ${refused.join(", ") || "none"}`,
    `first token ${[firstPieceP50Ms, firstPieceP90Ms, firstPieceP99Ms].map(ms).join(" / ")} ms`,
    `then ${[tokenP50Ms, tokenP99Ms].map(ms).join(" / ")} ms a token`,
    `good ${served.goodPerSecond.toFixed(2)} requests/s`,
  ];
  console.log(`${label}: ${facts.join("; ")}`);
}
