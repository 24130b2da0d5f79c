import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A server in a process of its own. */
export interface ServerProcess {
  baseUrl: string;
  stop(): Promise<void>;
}

/** Starts a program that prints `{"baseUrl": …}` as its first line and then serves. */
export async function startServer(args: readonly string[]): Promise<ServerProcess> {
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), "line"),
    once(child, "exit").then(() => Promise.reject(new Error(`${args[0]} ended at its start`))),
  ])) as [string];
  const { baseUrl } = JSON.parse(line) as { baseUrl: string };
  return { baseUrl, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}
