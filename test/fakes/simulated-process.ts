import type { Channel } from "../../src/foundation/channel.ts";
import type { Clock } from "../../src/foundation/clock.ts";

/**
 * A process as a simulation sees it: code whose clock, channels and storage go through this object
 * can be killed or paused at any point. What a killed process waits for never comes; what a paused
 * one waits for comes when it goes on.
 *
 * @example
 * const process = new SimulatedProcess(virtualClock());
 * const storage = faultyStorage(memoryStorage(), process, () => undefined);
 * process.kill(); // from here on, no call of `storage` has an effect or an end
 */
export class SimulatedProcess {
  /** Timers of a killed process never fire; those of a paused one fire when it goes on. */
  readonly clock: Clock;
  /** The clock of what goes on without it. */
  readonly outsideClock: Clock;
  /** Resolves when it is killed. */
  readonly death: Promise<void>;
  #state: "running" | "paused" | "killed" = "running";
  #deferred: (() => void)[] = [];
  readonly #timers = new Set<object>();
  #resolveDeath!: () => void;

  constructor(clock: Clock) {
    this.death = new Promise((resolve) => {
      this.#resolveDeath = resolve;
    });
    this.outsideClock = clock;
    this.clock = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      schedule: (delayMs, callback) => {
        const timer = {};
        this.#timers.add(timer);
        const cancel = clock.schedule(delayMs, () =>
          this.act(() => {
            if (this.#timers.delete(timer)) callback();
          }),
        );
        return () => {
          this.#timers.delete(timer);
          cancel();
        };
      },
    };
  }

  get state(): "running" | "paused" | "killed" {
    return this.#state;
  }

  /** Timers that it waits for: with one left, a program that is done would not leave. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Runs `action` now, or when the process goes on, or never. */
  act(action: () => void): void {
    if (this.#state === "running") action();
    else if (this.#state === "paused") this.#deferred.push(action);
  }

  /** Resolves while it runs: at once, when it goes on, or never. */
  alive(): Promise<void> {
    if (this.#state === "running") return Promise.resolve();
    return new Promise((resolve) => this.act(resolve));
  }

  /** `kill -9`. */
  kill(): void {
    if (this.#state === "killed") return;
    this.#state = "killed";
    this.#deferred = [];
    this.#resolveDeath();
  }

  /** Stops it, as SIGSTOP or a host that hangs does. */
  pause(): void {
    if (this.#state === "running") this.#state = "paused";
  }

  /** Lets a paused process go on. */
  resume(): void {
    if (this.#state !== "paused") return;
    this.#state = "running";
    for (const action of this.#deferred.splice(0)) this.act(action);
  }

  /** The process's end of a channel. */
  guard<Outgoing, Incoming>(channel: Channel<Outgoing, Incoming>): Channel<Outgoing, Incoming> {
    return {
      send: (message) => this.act(() => channel.send(message)),
      onMessage: (listener) => channel.onMessage((message) => this.act(() => listener(message))),
      onClose: (listener) => channel.onClose((error) => this.act(() => listener(error))),
      close: () => this.act(() => channel.close()),
    };
  }
}
