import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { localBackend } from "../../src/backends/local/local.ts";
import { openLocalFile } from "../../src/data/open-files.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import type { Storage } from "../../src/data/storage/storage.ts";
import type { EngineContext } from "../../src/engines/engine.ts";
import { channelPair } from "../../src/foundation/channel.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import type { RunDependencies } from "../../src/run/dependencies.ts";
import type { WorkerHandle } from "../../src/run/dispatch.ts";
import type { RunEvent } from "../../src/run/events.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../src/run/job/schema.ts";
import { locateRun } from "../../src/run/locate.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import { runRetry } from "../../src/run/retry/run-retry.ts";
import { type RunJobOptions, runJob } from "../../src/run/run-job.ts";
import { verifyRun } from "../../src/run/seal/verify.ts";
import type { FromWorker, ToWorker } from "../../src/run/worker/protocol.ts";
import { serveWorker } from "../../src/run/worker/serve.ts";
import { virtualClock } from "../../src/testing/virtual-clock.ts";
import { linesOf, pathsOf } from "./run-fixture.ts";
import { responseOf, type ScriptedEngine, scriptedEngine } from "./scripted-engine.ts";

/** An engine that answers every row at once. */
export const willing = (capacity = 4) =>
  scriptedEngine(capacity, ({ index }) => responseOf(`answer ${index}`));

/**
 * Whole runs from job to seal: input on disk, because planning looks at real files, all else in
 * memory on a virtual clock. Each run of a job is a process of its own as far as the run can tell.
 */
export function memoryRuns(rows: readonly string[], changes: Partial<JobInput> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-memory-run-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const input = join(folder, "rows.jsonl");
  const writeInput = (lines: readonly string[]) => {
    writeFileSync(input, lines.map((row) => `${row}\n`).join(""));
  };
  writeInput(rows);
  const isBusy = () => process.getActiveResourcesInfo().some((it) => /FSReq|CloseReq/.test(it));
  const clock = virtualClock({ isBusy });
  const random = seededRandom(6);
  const stores = new Map<string, Storage>();
  const store = (location: string): Storage => {
    const known = stores.get(location) ?? memoryStorage();
    stores.set(location, known);
    return known;
  };
  let processes = 0;
  const dependenciesOf = (open: (location: string) => Storage = store): RunDependencies => {
    const pid = ++processes;
    const self = { host: "here", bootId: "boot", pid, startTime: `${pid}` };
    return {
      clock,
      random,
      logger: silentLogger,
      // Runs of one test follow each other, save where a test takes the rule itself.
      processes: { self: () => self, look: () => "dead" },
      openStorage: open,
      openFile: openLocalFile,
      software: "test",
    };
  };
  const job = (more: Partial<JobInput> = {}): JobSpec =>
    jobSchema.parse({
      input: { path: input },
      model: { engine: "fake" },
      prompt: "Say {{ text }}",
      output: { path: "/runs/out" },
      ...changes,
      ...more,
    });
  const events: RunEvent[] = [];
  const optionsOf = (engine: ScriptedEngine, dependencies: RunDependencies) => ({
    backend: localBackend({
      machine: { cores: 4, memoryBytes: 2 ** 40 },
      startWorker: async (location, _job, generation) =>
        workerOf(dependencies, location, generation, engine),
    }),
    prepare: async () => {},
    onEvent: (event: RunEvent) => void events.push(event),
    signal: new AbortController().signal,
  });
  const location = (spec: JobSpec = job()) => locateRun(spec.output.path);
  const text = async (path: string, spec?: JobSpec) =>
    Buffer.from(await store(location(spec).directory).read(path)).toString();
  return {
    input,
    writeInput,
    /** Changes the time of the input, as a copy does. */
    touchInput: () => utimesSync(input, 1, 1),
    clock,
    job,
    events,
    store,
    dependenciesOf,
    location,
    run: (
      engine: ScriptedEngine = willing(),
      spec: JobSpec = job(),
      more: Partial<RunJobOptions> & { dependencies?: RunDependencies } = {},
    ) => {
      const { dependencies = dependenciesOf(), ...options } = more;
      const own = { ...optionsOf(engine, dependencies), overwrite: false, fork: false, ...options };
      return clock.run(runJob(spec, dependencies, own));
    },
    retry: (
      engine: ScriptedEngine = willing(),
      where: RetryWhere = "failed",
      dependencies: RunDependencies = dependenciesOf(),
      change: (stored: JobSpec) => Promise<JobSpec> = async (stored) => stored,
    ) => {
      const options = { ...optionsOf(engine, dependencies), where, change };
      return clock.run(runRetry(location(), dependencies, options));
    },
    text,
    lines: async (path: string, spec?: JobSpec) => linesOf(await text(path, spec)),
    /** All results, in the order of the parts. */
    results: async (spec: JobSpec = job()) => {
      const { directory, outside, mergedFile } = location(spec);
      if (mergedFile !== null) {
        return linesOf(Buffer.from(await store(outside).read(mergedFile)).toString());
      }
      const parts = await pathsOf(store(directory), "part-");
      return linesOf((await Promise.all(parts.map((part) => text(part, spec)))).join(""));
    },
    letters: async (spec: JobSpec = job()) => {
      const parts = await pathsOf(store(location(spec).directory), "_dead-letters/");
      return linesOf((await Promise.all(parts.map((part) => text(part, spec)))).join(""));
    },
    damages: async (spec: JobSpec = job()) => {
      const { directory, outside } = location(spec);
      return (await verifyRun(store(directory), store(outside))).damages;
    },
  };
}

function workerOf(
  dependencies: RunDependencies,
  directory: string,
  generation: number,
  engine: ScriptedEngine,
): WorkerHandle {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const engineContext: EngineContext = {
    ...dependencies,
    environment: {},
    homeDirectory: "/",
    hostCommand: [],
    killProcess() {},
  };
  const location = locateRun(directory);
  const serving = { location, generation, dependencies, engineContext, channel: far };
  const ended = serveWorker({ ...serving, openEngine: async () => engine });
  return { channel: near, kill: () => near.close(), ended: ended.then(() => "it left") };
}
