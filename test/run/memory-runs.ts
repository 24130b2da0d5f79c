import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { localBackend } from "../../src/backends/local/local.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import type { Storage } from "../../src/data/storage/storage.ts";
import type { EngineContext } from "../../src/engines/engine.ts";
import { channelPair } from "../../src/foundation/channel.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { Coordinator } from "../../src/run/coordinate/coordinator.ts";
import type { RunDependencies } from "../../src/run/dependencies.ts";
import { locateRun, type RunLocation } from "../../src/run/directory/locate.ts";
import { runStorage } from "../../src/run/directory/run-storage.ts";
import type { WorkerHandle } from "../../src/run/dispatch/dispatch.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../src/run/job/schema.ts";
import { runExtended } from "../../src/run/retry/extend-run.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import { type RunRetryOptions, resumeRetry, runRetry } from "../../src/run/retry/run-retry.ts";
import { type RunJobOptions, runJob } from "../../src/run/run-job.ts";
import { type Damage, verifyRun } from "../../src/run/seal/verify.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import type { RunResult } from "../../src/run/status/run-result.ts";
import type { FromWorker, ToWorker } from "../../src/run/worker/protocol.ts";
import { runWorker } from "../../src/run/worker/run-worker.ts";
import { type VirtualClock, virtualClock } from "../fakes/virtual-clock.ts";
import { localInputs } from "../local-inputs.ts";
import { nothingPrepared } from "./dispatching.ts";
import { linesOf, pathsOf } from "./run-fixture.ts";
import { responseOf, type ScriptedEngine, scriptedEngine } from "./scripted-engine.ts";

/** An engine that answers every row at once. */
export const willing = (capacity = 4) =>
  scriptedEngine(capacity, ({ index }) => responseOf(`answer ${index}`));

/**
 * Whole runs from job to seal: input on disk, because planning looks at real files, all else in
 * memory on a virtual clock. Each run of a job is a process of its own as far as the run can tell.
 */
export function memoryRuns(rows: readonly string[], changes: Partial<JobInput> = {}): MemoryRuns {
  const folder = mkdtempSync(join(tmpdir(), "sluice-memory-run-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runs = new MemoryRuns(join(folder, "rows.jsonl"), changes);
  runs.writeInput(rows);
  return runs;
}

/** Files are read, or the thread that decodes them is at work. */
const isReading = () =>
  process.getActiveResourcesInfo().some((it) => /FSReq|CloseReq|MessagePort/.test(it));

export class MemoryRuns {
  readonly input: string;
  readonly clock: VirtualClock = virtualClock({ isBusy: isReading });
  readonly events: RunEvent[] = [];
  readonly #changes: Partial<JobInput>;
  readonly #random = seededRandom(6);
  readonly #stores = new Map<string, Storage>();
  #processes = 0;

  constructor(input: string, changes: Partial<JobInput>) {
    this.input = input;
    this.#changes = changes;
  }

  writeInput(lines: readonly string[]): void {
    writeFileSync(this.input, lines.map((row) => `${row}\n`).join(""));
  }

  /** Changes the time of the input, as a copy does. */
  touchInput(): void {
    utimesSync(this.input, 1, 1);
  }

  store(location: string): Storage {
    const store = this.#stores.get(location) ?? memoryStorage();
    this.#stores.set(location, store);
    return store;
  }

  /** A new process, which sees all others as dead: the runs of one test follow each other. */
  dependenciesOf(open = (location: string) => this.store(location)): RunDependencies {
    const pid = ++this.#processes;
    const self = { host: "here", bootId: "boot", pid, startTime: `${pid}` };
    return {
      clock: this.clock,
      random: this.#random,
      logger: silentLogger,
      processes: { self: () => self, look: () => "dead" },
      openStorage: open,
      inputs: localInputs,
      software: "test",
    };
  }

  job(more: Partial<JobInput> = {}): JobSpec {
    return jobSchema.parse({
      input: { path: this.input },
      model: { engine: "fake" },
      prompt: "Say {{ text }}",
      output: { path: "/runs/out" },
      ...this.#changes,
      ...more,
    });
  }

  location(spec: JobSpec = this.job()): RunLocation {
    return locateRun(spec.output.path);
  }

  run(
    engine: ScriptedEngine = willing(),
    spec: JobSpec = this.job(),
    more: Partial<RunJobOptions> & { dependencies?: RunDependencies } = {},
  ): Promise<RunResult> {
    const { dependencies = this.dependenciesOf(), ...changes } = more;
    const options = { ...this.#optionsOf(engine, dependencies), overwrite: false, fork: false };
    return this.clock.run(runJob(spec, dependencies, { ...options, ...changes }));
  }

  retry(
    engine: ScriptedEngine = willing(),
    where: RetryWhere = "failed",
    dependencies: RunDependencies = this.dependenciesOf(),
    change: (stored: JobSpec) => Promise<JobSpec> = async (stored) => stored,
    more: Partial<RunRetryOptions> = {},
  ): Promise<RunResult | undefined> {
    const options = { ...this.#optionsOf(engine, dependencies), where, change, ...more };
    return this.clock.run(runRetry(this.location(), dependencies, options));
  }

  /** Reads failed rows anew. */
  reread(
    engine: ScriptedEngine = willing(),
    reread: RunRetryOptions["reread"] = "input",
  ): Promise<RunResult | undefined> {
    return this.retry(engine, "failed", this.dependenciesOf(), async (stored) => stored, {
      reread,
    });
  }

  /** Goes on with the retry that is begun. */
  resume(
    engine: ScriptedEngine = willing(),
    change: (stored: JobSpec) => Promise<JobSpec> = async (stored) => stored,
  ): Promise<RunResult | undefined> {
    const dependencies = this.dependenciesOf();
    const options = { ...this.#optionsOf(engine, dependencies), change };
    return this.clock.run(resumeRetry(this.location(), dependencies, options));
  }

  /** Runs the job, and what was appended to its input. */
  extend(engine: ScriptedEngine = willing(), spec: JobSpec = this.job()): Promise<RunResult> {
    const dependencies = this.dependenciesOf();
    const options = { ...this.#optionsOf(engine, dependencies), overwrite: false, fork: false };
    return this.clock.run(runExtended(spec, dependencies, options));
  }

  /** Tries to lead as a process of another host, which sees nothing but heartbeats. */
  ruleElsewhere(): Promise<Coordinator> {
    const self = { host: "there", bootId: "boot", pid: 1, startTime: "1" };
    return Coordinator.lead({
      storage: this.store(this.location().directory),
      clock: this.clock,
      processes: { self: () => self, look: () => "elsewhere" },
      id: "elsewhere",
      job: this.job(),
    });
  }

  async text(path: string, spec?: JobSpec): Promise<string> {
    const storage = runStorage(this.store(this.location(spec).directory));
    return Buffer.from(await storage.read(path)).toString();
  }

  /** The ids and answers of its results. */
  async answers(): Promise<unknown[]> {
    return (await this.results()).map(({ id, answer }) => [id, answer]);
  }

  /** All results, in the order of the parts. */
  async results(spec: JobSpec = this.job()): Promise<Record<string, unknown>[]> {
    const { outside, mergedFile } = this.location(spec);
    if (mergedFile === null) return this.#linesUnder("part-", spec);
    return linesOf(Buffer.from(await this.store(outside).read(mergedFile)).toString());
  }

  letters(spec: JobSpec = this.job()): Promise<Record<string, unknown>[]> {
    return this.#linesUnder("_dead-letters/", spec);
  }

  async damages(spec: JobSpec = this.job()): Promise<Damage[]> {
    const { directory, outside } = this.location(spec);
    return (await verifyRun(runStorage(this.store(directory)), this.store(outside))).damages;
  }

  async #linesUnder(prefix: string, spec: JobSpec): Promise<Record<string, unknown>[]> {
    const paths = await pathsOf(this.store(this.location(spec).directory), prefix);
    const texts = await Promise.all(paths.map((path) => this.text(path, spec)));
    return linesOf(texts.join(""));
  }

  #optionsOf(engine: ScriptedEngine, dependencies: RunDependencies) {
    return {
      backendOf: () =>
        localBackend({
          machine: { cores: 4, memoryBytes: 2 ** 40 },
          startWorker: async (location, _job, generation) =>
            workerOf(dependencies, location, generation, engine),
        }),
      ...nothingPrepared,
      onEvent: (event: RunEvent) => void this.events.push(event),
      signal: new AbortController().signal,
    };
  }
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
  const ended = runWorker({ ...serving, openEngine: async () => engine });
  return { channel: near, kill: () => near.close(), ended: ended.then(() => "it left") };
}
