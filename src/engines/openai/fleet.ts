import type { SluiceError } from "../../foundation/errors.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import type { EngineContext } from "../engine.ts";
import { apiKey } from "./api-key.ts";
import { trustOf } from "./certificates.ts";
import { Endpoint, type EndpointsBeside, type Lease, shownAddress } from "./endpoint.ts";
import { endpointsOf } from "./endpoints.ts";
import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";
import { ReplyBudget } from "./reply-budget.ts";
import { holderOf, leastLoaded } from "./routing/router.ts";

/** Requests that wait for each of several servers, so that it is sent what suits it. */
const maxWaitingForEndpoint = 16;

/** Times that the first of those that wait is passed by others. */
export const maxPasses = 64;

/** What a request would have of the endpoint that it goes to. */
export interface Wish {
  /** Key of its prefix: it had better go where others of that key went. */
  key?: number | undefined;
  /** Tokens that it may cost, estimated. */
  tokens: number;
  /** Endpoints on which it failed: any other is better. */
  avoided?: ReadonlySet<Endpoint> | undefined;
}

/**
 * The endpoints of an engine, and the line of requests for which none has room. When one has, the
 * first of the line gets it; others may pass it whose prefix is at that very endpoint, but only
 * `maxPasses` times.
 *
 * Source: Zaharia et al., "Delay scheduling", EuroSys 2010.
 */
export class Fleet implements EndpointsBeside {
  readonly endpoints: readonly Endpoint[];
  readonly #clock: EngineContext["clock"];
  readonly #logger: EngineContext["logger"];
  readonly #line = new Set<Waiter>();
  /** Those that an endpoint refused, and wait for a while in which others go. */
  readonly #held = new Set<Held>();
  readonly #watch = new AbortWatch();
  /** Times that the first of the line was passed. */
  #passes = 0;

  /** @throws SluiceError what a key, an address or a file of certificates is refused for. */
  constructor(options: OpenaiModelOptions, context: EngineContext) {
    const { environment, logger, clock } = context;
    const each = endpointsOf(options);
    const secureContext = trustOf(environment);
    const secrets = each.map((own) => apiKey(own, environment)?.value ?? "");
    const heaviest = Math.max(...each.map(({ weight }) => weight));
    const addresses = each.map(({ baseUrl }) => shownAddress(baseUrl)).join(", ");
    const replyBudget = new ReplyBudget();
    this.#clock = clock;
    this.#logger = logger;
    this.endpoints = each.map((own) => {
      const maxInFlight = shareOf(options.maxInFlight, own, heaviest);
      return new Endpoint(own, {
        ...context,
        ...{
          options,
          maxInFlight,
          secureContext,
          addresses,
          secrets,
          watch: this.#watch,
          replyBudget,
          beside: this,
        },
      });
    });
    for (const { pace } of this.endpoints) pace.onRoom(() => this.onRoom());
  }

  /** True where requests have a choice of endpoints. */
  get hasSeveral(): boolean {
    return this.endpoints.length > 1;
  }

  /**
   * Requests that it can usefully hold: what the endpoints take, some to choose from, and those
   * that wait for a while.
   */
  get capacity(): number {
    const { left } = this;
    const taken = left.reduce((sum, { pace }) => sum + pace.limit, this.#held.size);
    return left.length > 1 ? taken + left.length * maxWaitingForEndpoint : taken;
  }

  /** Endpoints that were not taken out. */
  get left(): readonly Endpoint[] {
    return this.endpoints.filter(({ removedBy }) => removedBy === undefined);
  }

  /** Leave to ask, where an endpoint has room and nobody waits for it. */
  tryTake(wish: Wish): Lease | undefined {
    return this.#line.size > 0 ? undefined : this.#leaseFor(wish);
  }

  /**
   * Leave to ask, as soon as an endpoint has room.
   *
   * @throws SluiceError `ENDPOINT_DOWN` when all were down for too long; the signal's reason.
   */
  take(wish: Wish, signal: AbortSignal): Promise<Lease> {
    const { promise, resolve, reject } = Promise.withResolvers<Lease>();
    const waiter: Waiter = {
      ...{ wish, signal, resolve, reject },
      abort: (reason) => {
        this.#line.delete(waiter);
        reject(reason);
      },
    };
    this.#line.add(waiter);
    this.#watch.add(signal, waiter);
    this.onRoom();
    return promise;
  }

  /** Has a request wait, in whose place others go. @throws as `take`. */
  hold(waitMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const cancel = this.#clock.schedule(waitMs, () => {
      this.#held.delete(held);
      this.#watch.remove(signal, held);
      resolve();
    });
    const held: Held = {
      signal,
      abort: (reason) => {
        cancel();
        this.#held.delete(held);
        reject(reason);
      },
    };
    this.#held.add(held);
    this.#watch.add(signal, held);
    return promise;
  }

  takeOut(endpoint: Endpoint, error: SluiceError): boolean {
    if (endpoint.removedBy !== undefined) return true;
    if (this.left.length === 1) return false;
    endpoint.removedBy = error;
    this.#logger.log("warn", "the endpoint is left out from now on", {
      endpoint: endpoint.address,
      reason: error.message,
    });
    return true;
  }

  nothingAnswersSinceMs(): number | undefined {
    const since = this.left.map(({ breaker }) => breaker.downSinceMs);
    return since.reduce(
      (latest, it) => (latest === undefined || it === undefined ? undefined : Math.max(latest, it)),
      Number.NEGATIVE_INFINITY,
    );
  }

  isOtherOpen(endpoint: Endpoint): boolean {
    return this.endpoints.some((other) => other !== endpoint && other.isOpen);
  }

  onRoom(): void {
    for (;;) {
      const granted = this.#nextOfLine();
      if (granted === undefined) return;
      const [waiter, lease] = granted;
      this.#line.delete(waiter);
      this.#watch.remove(waiter.signal, waiter);
      waiter.resolve(lease);
    }
  }

  onDown(error: SluiceError): void {
    for (const waiter of [...this.#line, ...this.#held]) {
      this.#watch.remove(waiter.signal, waiter);
      waiter.abort(error);
    }
  }

  async close(error: SluiceError): Promise<void> {
    this.onDown(error);
    await Promise.all(this.endpoints.map((endpoint) => endpoint.close(error)));
  }

  /** Who of the line goes next, and where; undefined where there is room for nobody. */
  #nextOfLine(): [Waiter, Lease] | undefined {
    const [first] = this.#line;
    if (first === undefined) return undefined;
    const suited = this.hasSeveral ? this.#suitedOfLine() : undefined;
    if (suited !== undefined) {
      this.#passes = suited[0] === first ? 0 : this.#passes + 1;
      return suited;
    }
    const lease = this.#leaseFor(first.wish);
    if (lease === undefined) return undefined;
    this.#passes = 0;
    return [first, lease];
  }

  /** The first of the line whose prefix is at an endpoint that has room. */
  #suitedOfLine(): [Waiter, Lease] | undefined {
    const open = this.#open;
    const hasRoom = open.some(({ pace }) => pace.inFlight < pace.limit);
    if (!hasRoom || this.#passes >= maxPasses) return undefined;
    let left = open.length * maxWaitingForEndpoint;
    for (const waiter of this.#line) {
      if (left-- === 0) return undefined;
      const lease = leaseOfHolder(waiter.wish, open);
      if (lease !== undefined) return [waiter, lease];
    }
    return undefined;
  }

  get #open(): Endpoint[] {
    return this.endpoints.filter(({ isOpen }) => isOpen);
  }

  #leaseFor(wish: Wish): Lease | undefined {
    const { tokens, avoided } = wish;
    if (!this.hasSeveral) return leaseOf(this.endpoints[0]!, tokens);
    let open = this.#open;
    const wanted = this.#probeFor(wish) ?? leaseOfHolder(wish, open);
    if (wanted !== undefined) return wanted;
    if (avoided !== undefined && open.some((endpoint) => !avoided.has(endpoint))) {
      open = open.filter((endpoint) => !avoided.has(endpoint));
    }
    while (open.length > 0) {
      const least = leastLoaded(open)!;
      const lease = admitted(least, tokens);
      if (lease !== undefined) return lease;
      open = open.filter((endpoint) => endpoint !== least);
    }
    return undefined;
  }

  /** An endpoint whose pause is over is tried by the next request that did not fail there. */
  #probeFor({ tokens, avoided }: Wish): Lease | undefined {
    for (const endpoint of this.endpoints) {
      if (!endpoint.isProbeDue || endpoint.removedBy !== undefined) continue;
      if (avoided?.has(endpoint) && this.isOtherOpen(endpoint)) continue;
      const lease = leaseOf(endpoint, tokens);
      if (lease !== undefined) return lease;
    }
    return undefined;
  }
}

interface Held extends Abortable {
  signal: AbortSignal;
}

interface Waiter extends Held {
  wish: Wish;
  resolve(lease: Lease): void;
  reject(reason: unknown): void;
}

/** The heaviest of several has the whole limit, the others as much less as they weigh less. */
function shareOf(
  maxInFlight: number | undefined,
  { weight }: EndpointOptions,
  heaviest: number,
): number | undefined {
  if (maxInFlight === undefined) return undefined;
  return Math.max(1, Math.round((maxInFlight * weight) / heaviest));
}

/** Leave to ask the one of them that has the prefix; undefined where that has no room now. */
function leaseOfHolder(
  { key, tokens, avoided }: Wish,
  open: readonly Endpoint[],
): Lease | undefined {
  if (key === undefined) return undefined;
  const holder = holderOf(key, open);
  if (holder === undefined || avoided?.has(holder)) return undefined;
  return admitted(holder, tokens);
}

/** Leave to ask an endpoint, be it to try whether it is back. */
function leaseOf(endpoint: Endpoint, tokens: number): Lease | undefined {
  if (endpoint.isOpen) return admitted(endpoint, tokens);
  if (!endpoint.isProbeDue) return undefined;
  const admission = endpoint.pace.tryAdmit(tokens);
  if (admission === undefined) return undefined;
  endpoint.isProbeDue = false;
  return { endpoint, admission, isProbe: true };
}

function admitted(endpoint: Endpoint, tokens: number): Lease | undefined {
  const admission = endpoint.pace.tryAdmit(tokens);
  return admission && { endpoint, admission, isProbe: false };
}
