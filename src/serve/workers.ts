import type { Engine } from "../engines/engine.ts";
import { type Clock, untilAborted } from "../foundation/clock.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { InferenceRequest, InferenceResponse, OnDelta } from "../foundation/inference.ts";
import { mostRoom, PrefixAffinity, type Replica } from "./prefix-affinity.ts";

export interface ModelWorker extends Replica {
  /** Its number among the workers of its model, from 0. */
  readonly place: number;
  /** Milliseconds since 1970 at which it was loaded. */
  readonly startedMs: number;
  readonly engine: Engine;
  readonly gpus: readonly string[];
  inFlight: number;
  /** Called when it has left the workers and holds nothing. */
  onIdle?: (() => void) | undefined;
}

/** A copy that was just loaded. */
export interface StartedWorker {
  engine: Engine;
  /** The GPUs that it computes on, by number, else by name; empty on the processor. */
  gpus: readonly string[];
}

/** Loads one more copy, which has that place among the workers. */
export type StartWorker = (place: number) => Promise<StartedWorker>;

/**
 * The loaded copies of a model as one engine, whose number may change while it answers: none is
 * loaded again for that, and none is closed before its requests are answered.
 */
export class Workers implements Engine {
  readonly #start: StartWorker;
  readonly #clock: Clock;
  readonly #affinity: PrefixAffinity | undefined;
  #workers: ModelWorker[] = [];
  /** Changes under way after which there is a worker. */
  #coming = 0;
  /** Changes come one after another. */
  #changing: Promise<void> = Promise.resolve();
  #isClosed = false;
  /** Called when there are more of them. */
  onGrown: () => void = () => {};

  /** @param keepsPrefixes whether a beginning that a worker has computed is cheaper there. */
  constructor(start: StartWorker, clock: Clock, keepsPrefixes = false) {
    this.#start = start;
    this.#clock = clock;
    this.#affinity = keepsPrefixes ? new PrefixAffinity() : undefined;
  }

  get all(): readonly ModelWorker[] {
    return this.#workers;
  }

  /** Whether a request finds a worker, or one that is being loaded. */
  get isThere(): boolean {
    return this.#workers.length > 0 || this.#coming > 0;
  }

  get name(): string {
    return this.#workers[0]?.engine.name ?? "none";
  }

  get capacity(): number {
    return this.#workers.reduce((sum, { engine }) => sum + engine.capacity, 0);
  }

  get concurrency(): number {
    return this.#workers.reduce((sum, { engine }) => sum + concurrencyOf(engine), 0);
  }

  /** Those of the first worker. */
  get choices(): Engine["choices"] {
    return this.#workers[0]?.engine.choices;
  }

  /**
   * Answers by the worker that has the beginning of the chat, else by the one that has most room;
   * waits for the first one while it is loaded.
   *
   * @throws SluiceError `WORKERS_MISSING`; as `Engine.infer`.
   */
  async infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse> {
    const isComing = this.#workers.length === 0 && this.#coming > 0;
    if (isComing) await untilAborted(this.#changing, signal);
    const worker = this.#workerFor(request);
    if (worker === undefined) throw new SluiceError("WORKERS_MISSING");
    worker.inFlight++;
    try {
      return await worker.engine.infer(request, signal, onDelta);
    } finally {
      worker.inFlight--;
      if (worker.inFlight === 0) worker.onIdle?.();
    }
  }

  /**
   * Changes the number of workers. The promise resolves when the new ones are loaded, and those
   * that are too many have answered what they had and are closed.
   *
   * @param most a number up to this one, which earlier changes have made, stays.
   * @throws SluiceError the reason why a worker cannot be loaded; the number is then as before.
   */
  scale(least: number, most = least): Promise<void> {
    if (least > 0) this.#coming++;
    const changed = this.#changing
      .then(() => this.#scale(Math.min(most, Math.max(least, this.#workers.length))))
      .finally(() => {
        if (least > 0) this.#coming--;
      });
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#changing;
    await Promise.all(this.#workers.map(({ engine }) => engine.close()));
  }

  #workerFor({ messages }: InferenceRequest): ModelWorker | undefined {
    const workers = this.#workers;
    if (workers.length < 2) return workers[0];
    if (messages && this.#affinity) return this.#affinity.choose(messages, workers);
    return mostRoom(workers);
  }

  async #scale(count: number): Promise<void> {
    const leaving = this.#workers.slice(count);
    if (leaving.length > 0) {
      this.#workers = this.#workers.slice(0, count);
      await Promise.all(leaving.map(closeWhenIdle));
      return;
    }
    const places = Array.from({ length: count }, (_, place) => place).slice(this.#workers.length);
    const started = await Promise.allSettled(places.map((place) => this.#load(place)));
    const workers = started.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
    const failed = started.find((each) => each.status === "rejected");
    if (failed || this.#isClosed) {
      await Promise.all(workers.map(({ engine }) => engine.close()));
      throw failed?.reason ?? new SluiceError("ENGINE_DIED", "the model was unloaded");
    }
    this.#workers = [...this.#workers, ...workers];
    this.onGrown();
  }

  async #load(place: number): Promise<ModelWorker> {
    const { engine, gpus } = await this.#start(place);
    const startedMs = this.#clock.now();
    // It may grow while the engine works.
    return {
      ...{ place, startedMs, engine, gpus, inFlight: 0 },
      get concurrency() {
        return concurrencyOf(engine);
      },
    };
  }
}

const concurrencyOf = ({ concurrency, capacity }: Engine) => concurrency ?? capacity;

async function closeWhenIdle(worker: ModelWorker): Promise<void> {
  if (worker.inFlight > 0) {
    await new Promise<void>((resolve) => {
      worker.onIdle = resolve;
    });
  }
  await worker.engine.close();
}
