import { localBackend } from "../../src/backends/local/local.ts";
import { workOnTasks } from "../../src/cli/static-worker.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import type { Storage } from "../../src/data/storage/storage.ts";
import type { Engine, EngineContext } from "../../src/engines/engine.ts";
import { openEngine } from "../../src/engines/registry.ts";
import { channelPair } from "../../src/foundation/channel.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { asSluiceError } from "../../src/foundation/errors.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { mix32, type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";
import type { RunDependencies } from "../../src/run/dependencies.ts";
import type { WorkerHandle } from "../../src/run/dispatch.ts";
import { locateRun, type RunLocation } from "../../src/run/locate.ts";
import { runJob } from "../../src/run/run-job.ts";
import type { FromWorker, ToWorker } from "../../src/run/worker/protocol.ts";
import { serveWorker } from "../../src/run/worker/serve.ts";
import { faultyStorage, type StorageVisit } from "../../src/testing/faulty-storage.ts";
import { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import { drawStorageFault, fullDiskFault } from "../../src/testing/storage-faults.ts";
import { type VirtualClock, virtualClock } from "../../src/testing/virtual-clock.ts";
import { stubIo } from "../cli/io-stub.ts";
import { type Actor, heardBy } from "./actor.ts";
import { type CallEnd, describeEnd } from "./call-end.ts";
import type { SimulatedInputs } from "./inputs.ts";
import { ObservedStorage, taskOfJournal } from "./observed-storage.ts";
import type { Scenario } from "./scenario.ts";

/** A process's store with a fault of its own: for bugs that the simulation has to catch. */
export type PlantInStore = (inner: Storage, actor: Actor, world: World) => Storage;

/** Everything of one simulated run: time, stores, processes, and what befalls them. */
export class World {
  readonly scenario: Scenario;
  readonly clock: VirtualClock;
  readonly location: RunLocation;
  readonly actors: Actor[] = [];
  readonly violations: string[] = [];
  /** What was done to the run, in order. */
  readonly log: string[] = [];
  /** Row of each ask; its number is part of the answer, so that no two answers are the same. */
  readonly asks: { row: number; by: number }[] = [];
  /** Rows that were asked and not on file when their process was killed. */
  inFlightAtKills = 0;
  /**
   * Times that a suspected row may have looked like the killer of its worker though it was not:
   * kills from outside, journals that could not be written, other workers that were asking it.
   */
  doubts = 0;
  isFaulty = true;
  readonly #inputs: SimulatedInputs;
  readonly #random: Random;
  readonly #stores = new Map<string, ObservedStorage>();
  readonly #plant: PlantInStore;
  #disruptions: number;

  constructor(
    scenario: Scenario,
    inputs: SimulatedInputs,
    plant: PlantInStore,
    isBusy: () => boolean,
  ) {
    this.scenario = scenario;
    this.#inputs = inputs;
    this.#random = seededRandom(scenario.seed ^ 0x5eed);
    this.clock = virtualClock({ isBusy });
    this.location = locateRun(scenario.job.output.path);
    this.#plant = plant;
    this.#disruptions = scenario.disruptions;
  }

  violate(violation: string): void {
    this.violations.push(violation);
    this.note(`VIOLATION ${violation}`);
  }

  note(text: string): void {
    this.log.push(`${this.clock.monotonic().toFixed(1)} ms: ${text}`);
  }

  /** A store as it is, without faults. */
  store(location: string): ObservedStorage {
    let store = this.#stores.get(location);
    if (!store) {
      store = new ObservedStorage(memoryStorage(), (violation) => this.violate(violation));
      this.#stores.set(location, store);
    }
    return store;
  }

  /** Runs the job once, in a process of its own on `host`. */
  async call(host: string): Promise<CallEnd> {
    const actor = this.#newActor(host, "coordinator");
    this.note(`coordinator ${actor.pid} on ${host}`);
    const run = runJob(this.scenario.job, this.#dependenciesOf(actor), {
      backend: localBackend({
        machine: { cores: 4, memoryBytes: 2 ** 40 },
        startWorker: async (_location, _job, generation) => this.#startWorker(actor, generation),
      }),
      overwrite: false,
      fork: false,
      prepare: async () => {},
      onEvent: () => {},
      signal: new AbortController().signal,
    }).then(
      (result): CallEnd => ({ result }),
      (error: unknown): CallEnd => ({ error: asSluiceError(error) }),
    );
    actor.ended = run;
    const end = await Promise.race([
      run,
      actor.process.death.then((): CallEnd => ({ gone: "killed" })),
      this.#longPause(actor),
    ]);
    this.note(`call of ${actor.pid} ends: ${describeEnd(end)}`);
    return end;
  }

  /** A worker that knows no coordinator takes all tasks, and seals if it is the last. */
  startRival(host: string): void {
    const actor = this.#newActor(host, "rival");
    this.doubts++;
    this.note(`rival ${actor.pid} on ${host}`);
    const serving = { ...this.#servingOf(actor), generation: 1 };
    const { io } = stubIo({ clock: actor.process.clock, random: this.#randomOf(actor) });
    actor.ended = workOnTasks(serving, { share: "0/1" }, io).then(
      () => this.note(`rival ${actor.pid} ends`),
      (error: unknown) => this.note(`rival ${actor.pid} ends: ${asSluiceError(error).message}`),
    );
  }

  /** A disruption may come at any time, not only when storage is called. */
  scheduleDisruption(): void {
    if (this.scenario.disruptions === 0) return;
    this.clock.schedule(this.#random.next() * 400, () => {
      const living = this.actors.filter(({ process }) => process.state === "running");
      const actor = living[randomInteger(this.#random, living.length)];
      if (actor && this.isFaulty && this.#disruptions > 0) this.#disrupt(actor, "by the clock");
    });
  }

  kill(actor: Actor, why: string): void {
    if (actor.process.state === "killed") return;
    this.note(`kill ${actor.role} ${actor.pid} ${why}`);
    this.inFlightAtKills += this.#inFlightOf(actor);
    if (actor.role !== "coordinator" && why !== byRow) this.doubts++;
    actor.process.kill();
  }

  resumeAll(): void {
    for (const actor of this.actors) {
      if (actor.process.state === "paused") this.note(`resume ${actor.role} ${actor.pid}`);
      actor.process.resume();
    }
  }

  random(): Random {
    return this.#random;
  }

  #newActor(host: string, role: Actor["role"]): Actor {
    const process = new SimulatedProcess(this.clock);
    const pid = this.actors.length + 1;
    const actor: Actor = { pid, host, role, process, ended: Promise.resolve(), known: new Map() };
    this.actors.push(actor);
    return actor;
  }

  #startWorker(parent: Actor, generation: number): WorkerHandle {
    const actor = this.#newActor(parent.host, "worker");
    const [near, far] = channelPair<ToWorker, FromWorker>();
    const channel = actor.process.guard(far);
    const left = serveWorker({ ...this.#servingOf(actor), generation, channel });
    actor.ended = left;
    const lost = new Promise<void>((resolve) => {
      actor.lose = resolve;
    });
    // A pipe closes when the process at either end is gone.
    void actor.process.death.then(() => far.close());
    void Promise.race([parent.ended, parent.process.death]).then(() => near.close());
    return {
      channel: parent.process.guard(near),
      kill: () => this.kill(actor, "by its coordinator"),
      ended: heardBy(
        parent,
        Promise.race([
          left.then(() => "it left"),
          actor.process.death.then(() => "it was killed"),
          lost.then(() => "it is lost"),
        ]),
      ),
    };
  }

  #servingOf(actor: Actor) {
    const dependencies = this.#dependenciesOf(actor);
    const engineContext: EngineContext = {
      ...dependencies,
      environment: {},
      homeDirectory: "/",
      hostCommand: [],
      killProcess: () => this.kill(actor, byRow),
    };
    const { location } = this;
    return {
      location,
      dependencies,
      engineContext,
      openEngine: async (...[options, context]: Parameters<typeof openEngine>) =>
        this.#countingEngine(await openEngine(options, context), actor),
    };
  }

  #randomOf({ pid }: Actor): Random {
    return seededRandom(mix32(this.scenario.seed) ^ pid);
  }

  #dependenciesOf(actor: Actor): RunDependencies {
    const { process, pid, host } = actor;
    return {
      clock: process.clock,
      random: this.#randomOf(actor),
      logger: silentLogger,
      processes: {
        self: () => ({ host, bootId: host, pid, startTime: String(pid) }),
        look: (identity) => {
          if (identity.host !== host) return "elsewhere";
          const state = this.actors[identity.pid - 1]!.process.state;
          return state === "killed" ? "dead" : "alive";
        },
      },
      openStorage: (location) => {
        const planted = this.#plant(this.store(location), actor, this);
        return faultyStorage(planted, process, (call) => this.#visit(actor, call));
      },
      openFile: this.#inputs.openFile,
      software: "simulation",
    };
  }

  #countingEngine(engine: Engine, actor: Actor): Engine {
    return {
      name: engine.name,
      capacity: engine.capacity,
      infer: async (request, signal) => {
        const { index } = request;
        // What a killed process had begun must not run on to here.
        while (actor.process.state !== "running") await actor.process.alive();
        const number = this.asks.push({ row: index, by: actor.pid }) - 1;
        for (const rows of actor.known.values()) {
          if (rows.has(index))
            this.violate(`row ${index} asked again though its answer is on file`);
        }
        const response = await engine.infer(request, signal);
        const answers = response.answers.map((it) => ({ ...it, text: `${it.text} #${number}` }));
        return { ...response, answers };
      },
      close: () => engine.close(),
    };
  }

  #visit(actor: Actor, call: Parameters<typeof drawStorageFault>[0]): StorageVisit {
    const random = this.#random;
    const { scenario } = this;
    const isProbe = call.path.startsWith("_sluice/probe/");
    const isSlow = !isProbe || random.next() < 0.1;
    const visit: StorageVisit = isSlow
      ? {
          beforeMs: random.next() * scenario.storeMs,
          afterMs: (random.next() * scenario.storeMs) / 4,
        }
      : {};
    const task = call.method === "appender" ? taskOfJournal(call.path) : undefined;
    if (task !== undefined) {
      visit.onEffect = () =>
        void actor.known.set(task, this.store(this.location.directory).journaledRows(task));
    }
    if (!this.isFaulty) return visit;
    const fault = this.#storageFault(call, isProbe);
    if (fault) {
      this.note(`${actor.role} ${actor.pid} ${call.method} ${call.path}: ${JSON.stringify(fault)}`);
      visit.fault = fault;
      if (taskOfJournal(call.path) !== undefined) this.doubts++;
    }
    const chance = scenario.disruptionRate * weightOf(call.path);
    if (this.#disruptions > 0 && random.next() < chance) this.#disruptAt(actor, call, visit);
    return visit;
  }

  #storageFault(call: Parameters<typeof drawStorageFault>[0], isProbe: boolean) {
    const { fullDisk, storageFaultRate } = this.scenario;
    const now = this.clock.monotonic();
    if (fullDisk && now >= fullDisk.fromMs && now < fullDisk.toMs) {
      const fault = fullDiskFault(call, this.#random);
      if (fault) return fault;
    }
    const rate = isProbe ? storageFaultRate / 10 : storageFaultRate;
    return this.#random.next() < rate ? drawStorageFault(call, this.#random) : undefined;
  }

  #disruptAt(
    actor: Actor,
    { method, path }: { method: string; path: string },
    visit: StorageVisit,
  ) {
    const where = `at ${method} ${path}`;
    const chance = this.#random.next();
    if (chance < 0.35) return this.#disrupt(actor, `before ${where}`);
    if (method === "append" && chance < 0.7) {
      visit.fault = { kind: "tear", share: this.#random.next(), code: "STORE_FAILED" };
    }
    const { onEffect } = visit;
    visit.onEffect = () => {
      onEffect?.();
      if (this.isFaulty && this.#disruptions > 0) this.#disrupt(actor, `after ${where}`);
    };
  }

  #disrupt(actor: Actor, where: string): void {
    this.#disruptions--;
    const chance = this.#random.next();
    if (chance < 0.15) {
      for (const each of this.actors) this.kill(each, `with all others, ${where}`);
    } else if (this.scenario.hasZombies && chance < 0.55) {
      this.#pause(actor, where);
    } else {
      this.kill(actor, where);
    }
  }

  #pause(actor: Actor, where: string): void {
    this.note(`pause ${actor.role} ${actor.pid} ${where}`);
    actor.process.pause();
    const isLost = actor.role !== "worker" || this.#random.next() < 0.7;
    if (isLost && actor.lose) {
      actor.lose();
      this.doubts++;
    }
    // A worker that hangs and is not given up hangs its run: it has to go on some time.
    if (isLost && this.#random.next() < 0.5) return;
    this.clock.schedule(this.#random.next() * 20_000, () => {
      this.note(`resume ${actor.role} ${actor.pid}`);
      actor.process.resume();
    });
  }

  async #longPause(actor: Actor): Promise<CallEnd> {
    for (;;) {
      await sleep(this.clock, 1000);
      if (actor.process.state === "paused") return { gone: "paused" };
    }
  }

  #inFlightOf({ pid }: Actor): number {
    const store = this.store(this.location.directory);
    const rowsPerTask = this.scenario.job.shard.rows!;
    const rows = new Set(this.asks.filter(({ by }) => by === pid).map(({ row }) => row));
    return [...rows].filter((row) => !store.journaledRows(Math.floor(row / rowsPerTask)).has(row))
      .length;
  }
}

const byRow = "by a row";

/** Kills come most where they hurt most. */
function weightOf(path: string): number {
  if (path.startsWith("_sluice/probe/")) return 0.01;
  if (path.startsWith("_sluice/commits/")) return 10;
  if (/^(part-|_dead-letters|_manifest|_SUCCESS)/.test(path)) return 10;
  if (/^_sluice\/(workers|coordinators)/.test(path)) return 0.5;
  return 2;
}
