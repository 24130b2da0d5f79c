import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { systemClock } from "../src/foundation/clock.ts";
import { startLeashed } from "../src/foundation/leashed-process.ts";
import { freePort } from "../test/free-ports.ts";
import { commandOf, descendants } from "../test/ray-cluster.ts";

/** A server in a process of its own. */
export interface ServerProcess {
  baseUrl: string;
  stop(): Promise<void>;
}

/** A server that can be made to hold still between measurements, on Linux. */
export interface PausableServer extends ServerProcess {
  pause(): void;
  resume(): void;
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

/** vLLM compiles at its first start. */
const readyLimitMs = 600_000;

/** A program that serves at a port that it is told. */
export interface ServerProgram {
  program: string;
  argsAt(port: number): readonly string[];
  environment: Readonly<Record<string, string>>;
  cwd?: string;
  /** Answers with a status below 400 as soon as the server is ready. */
  readyPath: string;
}

/**
 * Starts a server that does not outlive this process, and waits until it is ready.
 *
 * @throws Error with the end of what it printed, when it ends or does not get ready.
 */
export async function startAtPort({
  program,
  argsAt,
  environment,
  cwd,
  readyPath,
}: ServerProgram): Promise<PausableServer> {
  const port = await freePort();
  const args = argsAt(port);
  const child = startLeashed(program, args, {
    environment: { ...process.env, ...environment },
    workingDirectory: cwd,
    clock: systemClock,
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      printed = (printed + text).slice(-5000);
    });
  }
  const stop = async () => {
    child.kill();
    await child.ended;
  };
  let end: string | undefined;
  void child.ended.then(({ how }) => {
    end = how;
  });
  const baseUrl = `http://127.0.0.1:${port}`;
  const lastMs = performance.now() + readyLimitMs;
  for (let isReady = false; !isReady; ) {
    if (performance.now() > lastMs) {
      await stop();
      end = "it did not get ready";
    }
    if (end !== undefined) throw new Error(`${program} ${args.join(" ")}: ${end}\n${printed}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    isReady = await fetch(`${baseUrl}${readyPath}`).then(
      ({ ok }) => ok,
      () => false,
    );
  }
  const signal = (name: NodeJS.Signals) => {
    // Not the shells, which end it if this process dies.
    const programs = descendants(child.pid!).filter(
      (pid) => !commandOf(pid).startsWith("/bin/sh "),
    );
    for (const pid of programs) process.kill(pid, name);
  };
  return { baseUrl, stop, pause: () => signal("SIGSTOP"), resume: () => signal("SIGCONT") };
}
