import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, onTestFinished } from "vitest";
import type { ServeInput } from "../../src/serve/options.ts";
import { sluiceProgram } from "../sluice-program.ts";

/** A running `sluice serve`. */
export interface Served {
  /** Address of the API, up to and including `/v1`. */
  baseUrl: string;
  /** Where it listens, by what for, such as `http://127.0.0.1:8080`. */
  addresses: Record<"inference" | "management" | "metrics", string>;
  pid: number;
  /** What it has logged. */
  log(): string;
  /** Sends a signal and waits for the end; resolves to the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** Has something called at an end, by default that of a test. */
type AtEnd = (end: () => void) => void;

interface StartOptions {
  /** Beside those that name its file. */
  flags?: readonly string[];
  /** Ends the server; default: at the end of the test. */
  atEnd?: AtEnd;
}

/** A folder for one server and those that follow it. */
export function serveFolder(atEnd: AtEnd = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-serve-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/**
 * One server for all tests that leave it as it was; the first of them starts it.
 *
 * @param files of its folder, by name.
 */
export function servedOnce(
  options: ServeInput,
  environment: Readonly<Record<string, string>> = {},
  files: Readonly<Record<string, string>> = {},
): () => Promise<Served> {
  const ends: (() => void)[] = [];
  const atEnd = (end: () => void) => void ends.unshift(end);
  afterAll(() => {
    for (const end of ends) end();
  });
  let served: Promise<Served> | undefined;
  return () => {
    if (served !== undefined) return served;
    const folder = serveFolder(atEnd);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    served = startServe(folder, options, environment, { atEnd });
    return served;
  };
}

/** Starts a server on free ports; resolves when it is ready. */
export async function startServe(
  folder: string,
  options: ServeInput,
  environment: Readonly<Record<string, string>> = {},
  { flags = [], atEnd = onTestFinished }: StartOptions = {},
): Promise<Served> {
  const any = "127.0.0.1:0";
  const listen = { inference: any, management: any, metrics: any };
  writeFileSync(join(folder, "serve.yaml"), JSON.stringify({ listen, ...options }));
  const parameters = [
    sluiceProgram,
    "serve",
    "-c",
    "serve.yaml",
    "--json",
    "--no-install",
    ...flags,
  ];
  const child = spawn(process.execPath, parameters, {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  atEnd(() => void child.kill("SIGKILL"));
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = (await Promise.race([
    once(lines, "line"),
    once(child, "exit").then(() => Promise.reject(new Error(`the server ended: ${log}`))),
  ])) as [string];
  const { addresses } = JSON.parse(line) as Pick<Served, "addresses">;
  return {
    baseUrl: `${addresses.inference}/v1`,
    addresses,
    pid: child.pid!,
    log: () => log,
    end: (signal) => ended(child, signal),
  };
}

/** Much more than a busy machine takes for it. */
const longestWaitMs = 60_000;

/**
 * Waits until as many requests for a model are in work, and as many wait, by the server's figures.
 *
 * @param headers for a server that wants a token.
 */
export async function untilRequests(
  { addresses }: Pick<Served, "addresses">,
  model: string,
  { inFlight, waiting }: { inFlight: number; waiting: number },
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const wanted = [
    `sluice_requests_in_flight{model="${model}"} ${inFlight}`,
    `sluice_requests_waiting{model="${model}",priority="online"} ${waiting}`,
  ];
  const endMs = performance.now() + longestWaitMs;
  for (;;) {
    const text = await (await fetch(`${addresses.metrics}/metrics`, { headers })).text();
    const lines = new Set(text.split("\n"));
    if (wanted.every((line) => lines.has(line))) return;
    if (performance.now() > endMs) throw new Error(`waited for ${wanted}:\n${text}`);
    await pause(20);
  }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
  return child.exitCode;
}
