import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { runProgram } from "./program.ts";
import type { Load, Served } from "./serve-load.ts";
import { type BenchSetting, dataDirectory } from "./setting.ts";

const loadProgram = join(import.meta.dirname, "serve-load.ts");
const directory = join(dataDirectory, "serve");

/** A server of Sluice in a process of its own. */
export interface SluiceServer {
  baseUrl: string;
  pid: number;
  stop(): Promise<void>;
}

/** Sends a load from a process of its own. */
export async function send(baseUrl: string, load: Load): Promise<Served> {
  const { stdout } = await runProgram([loadProgram, baseUrl, JSON.stringify(load)]);
  return JSON.parse(stdout) as Served;
}

/**
 * Starts the installed package's server.
 *
 * @param keys of its file, beside addresses that the system chooses.
 * @param args further flags.
 */
export async function startSluice(
  { packageDirectory }: BenchSetting,
  keys: object,
  environment: Readonly<Record<string, string>> = {},
  args: readonly string[] = [],
): Promise<SluiceServer> {
  mkdirSync(directory, { recursive: true });
  const any = "127.0.0.1:0";
  const listen = { inference: any, management: any, metrics: any };
  writeFileSync(
    join(directory, "serve.yaml"),
    JSON.stringify({ listen, accessLog: false, ...keys }),
  );
  const program = join(packageDirectory, "bin/sluice.cjs");
  const flags = ["-c", "serve.yaml", "--json", ...args];
  const child = spawn(process.execPath, [program, "serve", ...flags], {
    cwd: directory,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), "line"),
    exited.then(() => Promise.reject(new Error("sluice serve ended at its start"))),
  ])) as [string];
  const { addresses } = JSON.parse(line) as { addresses: { inference: string } };
  return {
    baseUrl: `${addresses.inference}/v1`,
    pid: child.pid!,
    async stop() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
