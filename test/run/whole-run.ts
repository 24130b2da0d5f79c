import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { onTestFinished } from "vitest";
import { localBackend } from "../../src/backends/local/local.ts";
import { localStorage as openStorage } from "../../src/data/storage/local.ts";
import { channelPair } from "../../src/foundation/channel.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import type { Processes } from "../../src/run/coordinate/processes.ts";
import type { RunDependencies } from "../../src/run/dependencies.ts";
import { locateRun, type RunLocation } from "../../src/run/directory/locate.ts";
import type { WorkerHandle } from "../../src/run/dispatch/dispatch.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../src/run/job/schema.ts";
import { runRetry } from "../../src/run/retry/run-retry.ts";
import { runJob } from "../../src/run/run-job.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import type { RunResult } from "../../src/run/status/run-result.ts";
import type { FromWorker, ToWorker } from "../../src/run/worker/protocol.ts";
import { runWorker } from "../../src/run/worker/run-worker.ts";
import { localInputs } from "../local-inputs.ts";
import { nothingPrepared } from "./dispatching.ts";

/** A process that lives as long as its name is not among the dead. */
export function processesOf(pid: number, dead: ReadonlySet<number> = new Set()): Processes {
  const identity = { host: "here", bootId: "boot", pid, startTime: "1" };
  return {
    self: () => identity,
    look: (other) => (other.host !== "here" ? "elsewhere" : dead.has(other.pid) ? "dead" : "alive"),
  };
}

/** A folder of its own for one test. Processes that end late may still write into it. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-run-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** The outside world of runs in these tests: real files, no other process. */
export function dependenciesOf(changes: Partial<RunDependencies> = {}): RunDependencies {
  return {
    clock: systemClock,
    random: seededRandom(3),
    logger: silentLogger,
    processes: processesOf(1),
    openStorage,
    inputs: localInputs,
    software: "test",
    ...changes,
  };
}

export interface WholeRun {
  folder: string;
  job: JobSpec;
  location: RunLocation;
  dependencies: RunDependencies;
}

const backend = (dependencies: RunDependencies) =>
  localBackend({
    machine: { cores: 2, memoryBytes: 2 ** 34 },
    startWorker: async (location, _job, generation) =>
      workerInside(dependencies, locateRun(location), generation),
  });

function workerInside(
  dependencies: RunDependencies,
  location: RunLocation,
  generation: number,
): WorkerHandle {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const { clock, random, logger } = dependencies;
  const ended = runWorker({
    location,
    generation,
    dependencies,
    engineContext: {
      clock,
      random,
      logger,
      environment: {},
      homeDirectory: "/nowhere",
      hostCommand: [],
      killProcess() {},
    },
    channel: far,
  }).then(() => "it left");
  return { channel: near, kill: () => near.close(), ended };
}

/** Rows of which every seventh lacks the field that the prompt uses, and one is no JSON. */
export function someRows(count: number): string {
  const lines = Array.from({ length: count }, (_, id) => {
    if (id === 4) return '{"id": 4, broken';
    return JSON.stringify(id % 7 === 6 ? { id } : { id, text: `row ${id}` });
  });
  return lines.map((line) => `${line}\n`).join("");
}

/** A job over `rows` in a folder, not run yet. */
export function preparedRun(
  folder: string,
  rows = someRows(23),
  changes: Partial<JobInput> = {},
  output = "out",
): WholeRun {
  const input = join(folder, "rows.jsonl");
  writeFileSync(input, rows);
  const job = jobSchema.parse({
    input: { path: input, id: "id" },
    model: { engine: "fake" },
    prompt: "Say {{ text }}",
    generation: { seed: 1 },
    shard: { rows: 5 },
    output: { path: join(folder, output) },
    ...changes,
  });
  return { folder, job, location: locateRun(job.output.path), dependencies: dependenciesOf() };
}

/** Runs a prepared job to its end, or until `signal` stops it. */
export function carriedOut(
  { job, dependencies }: WholeRun,
  signal = new AbortController().signal,
  onEvent: (event: RunEvent) => void = () => {},
  overwrite = false,
): Promise<RunResult> {
  return runJob(job, dependencies, {
    backendOf: () => backend(dependencies),
    overwrite,
    fork: false,
    ...nothingPrepared,
    onEvent,
    signal,
  });
}

/** Asks the failed rows of a sealed run again, with another prompt. */
export function retried(run: WholeRun, prompt: string): Promise<void> {
  return retriedWith(run, { prompt });
}

/** The same with any other keys. */
export async function retriedWith(
  { location, dependencies }: WholeRun,
  changes: Partial<JobInput>,
): Promise<void> {
  const result = await runRetry(location, dependencies, {
    where: "failed",
    change: async (job) => jobSchema.parse({ ...job, ...changes }),
    backendOf: () => backend(dependencies),
    ...nothingPrepared,
    onEvent() {},
    signal: new AbortController().signal,
  });
  if (!result?.summary.sealed) throw new Error("the retry was not sealed");
}

/** A copy of a whole folder elsewhere: what a damage is done to. */
export function copyOf(run: WholeRun): WholeRun {
  const folder = scratchFolder();
  cpSync(run.folder, folder, { recursive: true });
  const moved = (path: string) => join(folder, relative(run.folder, path));
  const { directory, outside } = run.location;
  const location = { ...run.location, directory: moved(directory), outside: moved(outside) };
  return { ...run, folder, location };
}

/** Every file of a run directory, by its path in it. */
export function filesOf({ location }: WholeRun): string[] {
  return readdirSync(location.directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(location.directory, join(entry.parentPath, entry.name)))
    .sort();
}

export function textOf({ location }: WholeRun, path: string): string {
  return readFileSync(join(location.directory, path), "utf8");
}

export function putText({ location }: WholeRun, path: string, text: string | Uint8Array): void {
  writeFileSync(join(location.directory, path), text);
}

/** Makes a folder below a run directory. */
export function folderFor({ location }: WholeRun, path: string): void {
  mkdirSync(join(location.directory, path), { recursive: true });
}
