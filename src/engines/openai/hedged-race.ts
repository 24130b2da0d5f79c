import type { Clock } from "../../foundation/clock.ts";
import type { Usage } from "../../foundation/inference.ts";
import type { Abortable, AbortWatch } from "../abort-watch.ts";
import type { Call } from "./call.ts";
import type { Endpoint, Lease, Outcome } from "./endpoint.ts";
import type { Fleet, Wish } from "./fleet.ts";
import type { Hedging } from "./hedging.ts";

/** What races of one engine share. */
export interface RaceContext {
  fleet: Fleet;
  clock: Clock;
  hedging: Hedging;
  watch: AbortWatch;
}

/**
 * One request that is asked a second time where the first takes long. What comes first counts, the
 * other is aborted; a failure counts only when nothing else is under way.
 */
export class HedgedRace<T extends { usage: Usage }> implements Abortable {
  readonly #context: RaceContext;
  readonly #call: Call<T>;
  readonly #wish: Wish;
  readonly #signal: AbortSignal;
  readonly #outcome = Promise.withResolvers<Outcome<T>>();
  /** Of requests that were sent, and have not ended. */
  readonly #underWay = new Set<AbortController>();
  readonly #startedMs: number;
  /** Of the second request, from when it waits for an endpoint that has room. */
  #second: AbortController | undefined;
  #isOver = false;
  #cancelTimer: (() => void) | undefined;

  constructor(context: RaceContext, call: Call<T>, wish: Wish, signal: AbortSignal) {
    this.#context = context;
    this.#call = call;
    this.#wish = wish;
    this.#signal = signal;
    this.#startedMs = context.clock.monotonic();
  }

  /**
   * Asks, and says what came of it.
   *
   * @throws the signal's reason.
   */
  run(lease: Lease): Promise<Outcome<T>> {
    const { hedging } = this.#context;
    const hedgeAfter = (ms: number) => this.#hedgeAfter(Math.max(1, ms), lease.endpoint);
    const delayMs = hedging.begin();
    if (delayMs === undefined) this.#cancelTimer = hedging.onceKnown(hedgeAfter);
    else hedgeAfter(delayMs);
    this.#ask(lease, new AbortController());
    this.#context.watch.add(this.#signal, this);
    return this.#outcome.promise;
  }

  abort(reason: unknown): void {
    this.#end(() => this.#outcome.reject(reason));
  }

  #hedgeAfter(delayMs: number, first: Endpoint): void {
    const { clock, hedging } = this.#context;
    this.#cancelTimer = clock.schedule(delayMs, () => {
      if (!hedging.hasShare) return this.#hedgeAfter(delayMs, first);
      hedging.hedged();
      void this.#askElsewhere(first);
    });
  }

  async #askElsewhere(first: Endpoint): Promise<void> {
    const avoided = new Set([...(this.#wish.avoided ?? []), first]);
    this.#second = new AbortController();
    const { signal } = this.#second;
    const wanted = this.#context.fleet.takeFirst({ ...this.#wish, avoided }, signal);
    // Without one: the first has ended, or hears of what is wrong with all endpoints itself.
    const lease = await wanted.catch(() => undefined);
    if (lease !== undefined) this.#ask(lease, this.#second);
  }

  #ask(lease: Lease, controller: AbortController): void {
    this.#underWay.add(controller);
    lease.endpoint.ask(this.#call, lease, controller.signal).then(
      (outcome) => {
        this.#underWay.delete(controller);
        const isAnswer = outcome.of === "answer";
        if (this.#isOver || (!isAnswer && this.#underWay.size > 0)) return;
        const { clock, hedging } = this.#context;
        if (isAnswer) hedging.note(clock.monotonic() - this.#startedMs);
        this.#end(() => this.#outcome.resolve(outcome));
      },
      (reason: unknown) => {
        this.#underWay.delete(controller);
        if (!this.#isOver) this.abort(reason);
      },
    );
  }

  #end(report: () => void): void {
    this.#isOver = true;
    this.#cancelTimer?.();
    this.#context.watch.remove(this.#signal, this);
    const reason = new Error("the other was first");
    this.#second?.abort(reason);
    for (const controller of this.#underWay) controller.abort(reason);
    report();
  }
}
