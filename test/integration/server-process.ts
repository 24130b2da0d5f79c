import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { FaultScript } from "../../src/testing/fault-script.ts";

const program = join(import.meta.dirname, "../../src/testing/fake-server-main.ts");

interface ServerProcessOptions {
  delayMs?: number;
  /** Default: any free one. */
  port?: number;
  faults?: FaultScript;
}

/** A stand-in server as a process of its own. */
export interface ServerProcess {
  port: number;
  baseUrl: string;
  /** Stops it in the middle of what it does: it listens, and answers nothing. */
  stall(): void;
  /** Ends it as `kill -9` does; resolves when it is gone. */
  kill(): Promise<void>;
}

const running = new Set<ChildProcess>();

/** Starts a stand-in server, and resolves when it listens. */
export async function startServerProcess({
  delayMs = 0,
  port = 0,
  faults = { faults: [] },
}: ServerProcessOptions = {}): Promise<ServerProcess> {
  const args = ["--delay-ms", String(delayMs), "--port", String(port)];
  const child = spawn(process.execPath, [program, ...args, "--faults", JSON.stringify(faults)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  running.add(child);
  const exited = once(child, "exit");
  void exited.then(() => running.delete(child));
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), "line"),
    exited.then(() => Promise.reject(new Error("the stand-in server ended at its start"))),
  ])) as [string];
  return {
    ...(JSON.parse(line) as { port: number; baseUrl: string }),
    stall: () => void child.kill("SIGSTOP"),
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** Ends all that still run. */
export async function killServerProcesses(): Promise<void> {
  const ended = [...running].map((child) => once(child, "exit"));
  for (const child of running) child.kill("SIGKILL");
  await Promise.all(ended);
}
