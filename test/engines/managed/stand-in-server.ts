import { spawn } from "node:child_process";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { isJsonObject, type Json, type JsonObject } from "../../../src/foundation/json.ts";
import {
  type ReceivedRequest,
  type ServerBehaviour,
  startFakeServer,
} from "../../../src/testing/fake-server.ts";

// Stands for vLLM or llama-server: takes their arguments and answers as they do, or fails in the
// ways that `--behave JSON` and the prompts name.

/** What one of these servers is told to do. */
export interface StandInBehaviour {
  /** A file that gets a line of JSON for each start and for each prompt. */
  log: string;
  /** Time until it answers, during which it says so. */
  loadMs?: number;
  /** Which starts end at once, from 0. */
  failedStarts?: number[];
  /** This many starts end because something else has the port. */
  takenPorts?: number;
  ignoresSigterm?: boolean;
  /** Time an answer takes. */
  delayMs?: number;
  /** The same for the first start alone. */
  firstDelayMs?: number;
  /** The first start never answers this prompt of its own, from 0, nor later ones. */
  hangsFrom?: number;
  /** A prompt that ends so kills it. */
  killedBy?: string;
  /** Start a program that does not leave by itself. */
  hasChild?: boolean;
  /** Variables whose values it shows in its output, as servers do when they fail. */
  shows?: string[];
}

/** A line of the log. */
export type StandInEvent =
  | { event: "start"; pid: number; child: number | null; args: string[] }
  | { event: "ask"; prompt: string };

const args = process.argv.slice(2);
const argument = (flag: string) => args[args.lastIndexOf(flag) + 1] ?? "";
const behaviour = JSON.parse(argument("--behave")) as StandInBehaviour;
const key = process.env.VLLM_API_KEY ?? process.env.LLAMA_API_KEY;

const note = (event: StandInEvent) => appendFileSync(behaviour.log, `${JSON.stringify(event)}\n`);
const earlierStarts = existsSync(behaviour.log)
  ? readFileSync(behaviour.log, "utf8").split('"event":"start"').length - 1
  : 0;

for (const name of behaviour.shows ?? []) console.error(`${name}=${process.env[name]}`);
const child = behaviour.hasChild
  ? spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "inherit" })
  : undefined;
child?.unref();
note({ event: "start", pid: process.pid, child: child?.pid ?? null, args });
if (behaviour.ignoresSigterm) process.on("SIGTERM", () => {});

let asked = 0;
let isIll = false;
let isLoading = (behaviour.loadMs ?? 0) > 0;

function start(): void {
  if (earlierStarts < (behaviour.takenPorts ?? 0)) {
    console.error("[Errno 98] error while binding: address already in use");
    process.exitCode = 1;
  } else if (behaviour.failedStarts?.includes(earlierStarts)) {
    console.error("the weights do not fit");
    process.exitCode = 3;
  } else void serve();
}

async function serve(): Promise<void> {
  if (isLoading) {
    const says = setInterval(() => console.error(`loading, \u001b[32mlayer 7\u001b[0m of 9`), 10);
    setTimeout(() => {
      isLoading = false;
      clearInterval(says);
    }, behaviour.loadMs);
  }
  const { delayMs = 0, firstDelayMs = delayMs } = behaviour;
  const replyMs = earlierStarts === 0 ? firstDelayMs : delayMs;
  await startFakeServer({ port: Number(argument("--port")), delayMs: replyMs, behave });
}

function behave({ method, path, headers, json }: ReceivedRequest): ServerBehaviour | undefined {
  if (method === "GET" && path === "/health") {
    return isIll || isLoading ? { kind: "status", status: 503 } : { kind: "json", body: {} };
  }
  if (headers.authorization !== `Bearer ${key}`) return { kind: "status", status: 401 };
  if (method === "GET") return { kind: "json", body: about[path] ?? null };
  const prompt = promptOf(json);
  note({ event: "ask", prompt });
  const isKilled = behaviour.killedBy !== undefined && prompt.endsWith(behaviour.killedBy);
  if (isKilled || prompt.startsWith("die")) process.kill(process.pid, "SIGKILL");
  const isHeld = earlierStarts === 0 && asked++ >= (behaviour.hangsFrom ?? Infinity);
  if (isHeld || prompt.startsWith("hang")) return { kind: "hang" };
  if (prompt.startsWith("fall ill")) isIll = true;
  if (isIll || prompt === "fail") return { kind: "status", status: 500 };
  if (prompt === "pid") return { kind: "answer", text: String(process.pid) };
  return { kind: "answer", text: `re: ${prompt}` };
}

function promptOf(json: JsonObject | undefined): string {
  const [message] = Array.isArray(json?.messages) ? json.messages : [];
  return String(isJsonObject(message) ? message.content : json?.prompt);
}

const about: Record<string, Json> = {
  "/v1/models": { data: [{ id: "served", max_model_len: 512 }] },
  "/version": { version: "1.2.3" },
  "/props": { total_slots: 6, build_info: "b7", default_generation_settings: { n_ctx: 256 } },
};

start();
