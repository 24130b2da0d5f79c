import type { Clock } from "../../../foundation/clock.ts";
import { type ClimbedRequest, GoodputClimb } from "./goodput-climb.ts";
import { isOwnServer, LoadWatch } from "./load-watch.ts";
import { ServerQueue } from "./server-load.ts";

/** Initial number of requests at once to a server with an automatic limit. */
export const startInFlight = 16;

/** Most requests at once to a server with an automatic limit. */
export const maxFoundInFlight = 2048;

interface LimitFinderOptions {
  clock: Clock;
  endpoint: string;
  readPage?(path: string): Promise<string | undefined>;
  /** Whether requests are in flight. */
  isNeeded(): boolean;
  /** Called when the limit changed by itself. */
  onChange(): void;
  inFlight(): number;
}

/** Weight of one request in the share of failed ones, and the limit of that share. */
const failureWeight = 1 / 16;
const maxFailureShare = 0.25;

/**
 * Finds how many requests an endpoint should have at once: by the queue that its server reports,
 * else by the duration of its requests.
 */
export class LimitFinder {
  readonly #options: LimitFinderOptions;
  readonly #watch: LoadWatch | undefined;
  #climb = new GoodputClimb(startInFlight, maxFoundInFlight);
  #queue: ServerQueue | undefined;
  #hasAnswered = false;
  /** Requests without tokens are not compared with requests that have some. */
  #hasSizes = false;
  #failureShare = 0;

  constructor(options: LimitFinderOptions) {
    this.#options = options;
    const { readPage, endpoint } = options;
    if (!readPage || !isOwnServer(endpoint)) return;
    this.#watch = new LoadWatch({
      ...{ clock: options.clock, readPage, isNeeded: options.isNeeded },
      onLoad: (load) => {
        this.#queue ??= new ServerQueue(this.limit, maxFoundInFlight);
        this.#queue.note(load, options.inFlight());
        options.onChange();
      },
      onLost: () => {
        this.#climb = new GoodputClimb(this.limit, maxFoundInFlight);
        this.#queue = undefined;
      },
    });
  }

  get limit(): number {
    return this.#queue?.limit ?? this.#climb.limit(this.#options.clock.now());
  }

  /** The basis of the limit. */
  get by(): "goodput" | "server's queue" {
    return this.#queue ? "server's queue" : "goodput";
  }

  admitted(): void {
    if (this.#hasAnswered) this.#watch?.start();
  }

  /** As many as the endpoint takes without refusals. */
  cap(most: number): void {
    this.#climb.cap(most);
  }

  answered(request: ClimbedRequest): void {
    this.#failureShare *= 1 - failureWeight;
    if (!this.#hasAnswered) this.#watch?.start();
    this.#hasAnswered = true;
    if (this.#queue) return;
    if (request.size > 0) this.#hasSizes = true;
    if (request.size > 0 || !this.#hasSizes) this.#climb.answered(request);
  }

  failed(): void {
    this.#failureShare += (1 - this.#failureShare) * failureWeight;
    if (this.#failureShare <= maxFailureShare) return;
    this.#failureShare = 0;
    this.#climb.overloaded();
  }

  close(): void {
    this.#watch?.close();
  }
}
