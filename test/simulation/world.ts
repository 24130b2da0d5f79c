import type { InputStores } from "../../src/data/sources/open.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import type { RandomReader, Storage } from "../../src/data/storage/storage.ts";
import type { Engine, EngineContext } from "../../src/engines/engine.ts";
import { openEngine } from "../../src/engines/registry.ts";
import { channelPair } from "../../src/foundation/channel.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { mix32, type Random, seededRandom } from "../../src/foundation/random.ts";
import type { RunDependencies } from "../../src/run/dependencies.ts";
import { planPath } from "../../src/run/directory/layout.ts";
import { locateRun, type RunLocation } from "../../src/run/directory/locate.ts";
import { readJson } from "../../src/run/directory/records.ts";
import { runStorage } from "../../src/run/directory/run-storage.ts";
import type { WorkerHandle } from "../../src/run/dispatch/dispatch.ts";
import type { Plan } from "../../src/run/plan/plan.ts";
import { readSeals, type Seals } from "../../src/run/seal/seals.ts";
import type { FromWorker, ToWorker } from "../../src/run/worker/protocol.ts";
import { runWorker } from "../../src/run/worker/run-worker.ts";
import { faultyStorage } from "../fakes/faulty-storage.ts";
import { SimulatedProcess } from "../fakes/simulated-process.ts";
import { type VirtualClock, virtualClock } from "../fakes/virtual-clock.ts";
import { localInputs } from "../local-inputs.ts";
import { type Actor, ends, heardBy } from "./actor.ts";
import { AskLedger } from "./ask-ledger.ts";
import { Faults } from "./faults.ts";
import type { SimulatedInputs } from "./inputs.ts";
import { MemoryS3 } from "./memory-s3.ts";
import { ObservedStorage } from "./observed-storage.ts";
import { checkRemoval } from "./removal.ts";
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
  readonly ledger: AskLedger;
  readonly faults: Faults;
  readonly random: Random;
  readonly #inputs: SimulatedInputs;
  readonly #stores = new Map<string, ObservedStorage>();
  readonly #far = new Map<string, MemoryS3>();
  readonly #plant: PlantInStore;
  /** Planning reads real files, and a process that is killed meanwhile closes none. */
  readonly #readers: RandomReader[] = [];

  constructor(
    scenario: Scenario,
    inputs: SimulatedInputs,
    plant: PlantInStore,
    isBusy: () => boolean,
  ) {
    this.scenario = scenario;
    this.ledger = new AskLedger(scenario);
    this.#inputs = inputs;
    this.random = seededRandom(scenario.seed ^ 0x5eed);
    this.faults = new Faults(this, this.random);
    this.clock = virtualClock({ isBusy });
    this.location = locateRun(scenario.job.output.path);
    this.#plant = plant;
  }

  violate(violation: string): void {
    this.violations.push(violation);
    this.note(`VIOLATION ${violation}`);
  }

  /** Only where nobody sleeps, and nobody reads the old run meanwhile, does no view go back. */
  #noteView(violation: string): void {
    const { hasZombies, visitRate } = this.scenario;
    if (hasZombies || visitRate > 0) this.note(violation);
    else this.violate(violation);
  }

  note(text: string): void {
    this.log.push(`${this.clock.monotonic().toFixed(1)} ms: ${text}`);
  }

  /** A store as it is, without faults. */
  store(location: string): ObservedStorage {
    let store = this.#stores.get(location);
    if (!store) {
      const far = this.scenario.isFar ? new MemoryS3() : undefined;
      if (far) this.#far.set(location, far);
      const faultless = { location, clock: this.clock, random: this.random, faultRate: () => 0 };
      store = new ObservedStorage(far?.storageOf(faultless) ?? memoryStorage(), {
        report: (violation) => this.violate(violation),
        reportView: (violation) => this.#noteView(violation),
        onRemoval: () => checkRemoval(this),
      });
      this.#stores.set(location, store);
    }
    return store;
  }

  /** The run directory as it is. */
  get directory(): ObservedStorage {
    return this.store(this.location.directory);
  }

  /** The same, as the run that stands knows it. */
  get run(): Storage {
    return runStorage(this.directory);
  }

  /** Id of the run that is there, and how its generations ended. */
  async standing(): Promise<{ runId: string | undefined; seals: Seals }> {
    const { run } = this;
    const runId = (await readJson<Plan>(run, planPath))?.runId;
    return { runId, seals: await readSeals(run, { runId: runId ?? "" }) };
  }

  newActor(host: string, role: Actor["role"], parent?: Actor): Actor {
    const actor: Actor = {
      pid: this.actors.length + 1,
      host,
      role,
      process: new SimulatedProcess(this.clock),
      ...(parent && { parent }),
      ended: Promise.resolve(),
      hasEnded: false,
      known: new Map(),
      journalFaults: 0,
    };
    this.actors.push(actor);
    if (role === "coordinator" || role === "command") this.faults.noteLeader();
    return actor;
  }

  kill(actor: Actor, why: string): void {
    if (actor.process.state === "killed") return;
    this.note(`kill ${actor.role} ${actor.pid} ${why}`);
    const { serves } = actor;
    if (serves !== undefined && !actor.hasEnded) {
      this.ledger.noteKill(actor, this.directory.requestsOnFile(serves));
    }
    // What its workers are asking is asked again while they come to their end.
    if (actor.role === "coordinator") this.#noteOrphans(actor);
    if (actor.role !== "coordinator" && why !== byRow) this.faults.doubts++;
    actor.process.kill();
  }

  #noteOrphans(coordinator: Actor): void {
    for (const worker of this.actors) {
      const isAtWork = worker.process.state === "running" && !worker.hasEnded;
      if (worker.parent !== coordinator || worker.serves === undefined || !isAtWork) continue;
      this.ledger.noteKill(worker, this.directory.requestsOnFile(worker.serves));
    }
  }

  /** What is on file when an attempt begins: the attempt must not ask for it. */
  noteBegin(actor: Actor, { serves, task }: { serves: string; task: number }): void {
    // What others leave later belongs to attempts that it may have begun before.
    if (actor.serves === undefined) actor.known.set(-1, this.ledger.keptByLeavers(serves));
    actor.serves = serves;
    actor.known.set(task, this.directory.requestsOnFile(serves, task));
  }

  /** Starts a worker of a coordinator. */
  startWorker(parent: Actor, generation: number): WorkerHandle {
    const actor = this.newActor(parent.host, "worker", parent);
    const [near, far] = channelPair<ToWorker, FromWorker>();
    const channel = actor.process.guard(far);
    const left = ends(actor, runWorker({ ...this.servingOf(actor), generation, channel }));
    const lost = new Promise<void>((resolve) => {
      actor.lose = resolve;
    });
    // A pipe closes when the process at either end is gone.
    void actor.process.death.then(() => far.close());
    void Promise.race([parent.ended, parent.process.death]).then(
      () => near.close(),
      () => near.close(),
    );
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

  servingOf(actor: Actor) {
    const dependencies = this.dependenciesOf(actor);
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

  /** Closes the files that processes left open. */
  async close(): Promise<void> {
    for (const reader of this.#readers) await reader.close();
  }

  #keptInputs(inputs: InputStores): InputStores {
    const within: InputStores["within"] = (reach) => this.#keptInputs(inputs.within(reach));
    const open: InputStores["open"] = async (...file) => {
      const reader = await inputs.open(...file);
      this.#readers.push(reader);
      return reader;
    };
    return { ...inputs, within, open };
  }

  randomOf({ pid }: Actor): Random {
    return seededRandom(mix32(this.scenario.seed) ^ pid);
  }

  dependenciesOf(actor: Actor): RunDependencies {
    const { process, pid, host } = actor;
    return {
      clock: process.clock,
      random: this.randomOf(actor),
      logger: silentLogger,
      processes: {
        self: () => ({ host, bootId: host, pid, startTime: String(pid) }),
        look: (identity) => {
          if (identity.host !== host) return "elsewhere";
          const seen = this.actors[identity.pid - 1]!;
          return seen.process.state === "killed" || seen.hasEnded ? "dead" : "alive";
        },
      },
      openStorage: (location) => {
        const planted = this.#plant(this.#storeOf(actor, location), actor, this);
        return faultyStorage(planted, process, (call) => this.faults.visit(actor, call));
      },
      inputs: { ...this.#keptInputs(localInputs), open: this.#inputs.openFile },
      software: "simulation",
    };
  }

  async #servesStandingRun({ serves }: Actor): Promise<boolean> {
    const { runId } = await this.standing();
    return runId !== undefined && serves!.startsWith(`${runId.toLowerCase()}/`);
  }

  /** A store by the way that a process has to it, which ends with the process. */
  #storeOf(actor: Actor, location: string): ObservedStorage {
    const store = this.store(location);
    const far = this.#far.get(location);
    if (!far) return store;
    const { clock } = actor.process;
    const random = seededRandom(mix32(this.scenario.seed ^ 0xfa2) ^ actor.pid);
    const faultRate = () => (this.faults.isActive ? this.scenario.requestFaultRate : 0);
    return store.through(far.storageOf({ location, clock, random, faultRate }));
  }

  #countingEngine(engine: Engine, actor: Actor): Engine {
    return {
      name: engine.name,
      capacity: engine.capacity,
      infer: async (request, signal) => {
        // What a killed process had begun must not run on to here.
        while (actor.process.state !== "running") await actor.process.alive();
        const { number, isKnown } = this.ledger.add(actor, request);
        const ask = this.ledger.asks[number]!;
        // A run that was replaced meanwhile has nothing on file any more.
        if (isKnown && (await this.#servesStandingRun(actor))) {
          this.violate(`${ask.request} asked again by ${actor.pid}: its answer is on file`);
        }
        const response = await engine.infer(request, signal);
        while (actor.process.state !== "running") await actor.process.alive();
        ask.isAnswered = true;
        const answers = response.answers.map((it) => ({ ...it, text: `${it.text} #${number}` }));
        return { ...response, answers };
      },
      close: () => engine.close(),
    };
  }
}

const byRow = "by a row";
