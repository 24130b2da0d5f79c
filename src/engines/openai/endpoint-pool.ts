import type { SluiceError } from "../../foundation/errors.ts";
import { type Abortable, AbortWatch } from "../abort-watch.ts";
import type { EngineContext } from "../engine.ts";
import { endpointsOf } from "./api-key.ts";
import { trustOf } from "./certificates.ts";
import { Endpoint, type EndpointsBeside, type SendPermit } from "./endpoint.ts";
import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";
import { ReplyMemory } from "./reply-memory.ts";
import { holderOf, leastLoaded } from "./routing/router.ts";
import { ServerAccess } from "./server-access.ts";

/** Waiting requests for each of several servers, so that a suitable one can be chosen. */
const maxWaitingForEndpoint = 16;

/** How often others may pass the first waiting request. */
export const maxPasses = 64;

/** A request's wishes for its endpoint. */
export interface Wish {
  /** Key of its prefix: it should go to the endpoint of earlier requests with that key. */
  key?: number | undefined;
  /** Estimated tokens. */
  tokens: number;
  /** Endpoints on which it failed: any other is better. */
  avoided?: ReadonlySet<Endpoint> | undefined;
}

/**
 * The endpoints of an engine, and the line of requests for which none has room. When one has, the
 * first of the line gets it; requests whose prefix is at that very endpoint may pass it, but only
 * `maxPasses` times.
 *
 * Source: Zaharia et al., "Delay scheduling", EuroSys 2010.
 */
export class EndpointPool implements EndpointsBeside {
  readonly endpoints: readonly Endpoint[];
  readonly #clock: EngineContext["clock"];
  readonly #logger: EngineContext["logger"];
  readonly #line = new Set<Waiter>();
  /** Requests that an endpoint refused, which wait while others are sent. */
  readonly #held = new Set<Held>();
  readonly #watch = new AbortWatch();
  /** How often the first of the line was passed. */
  #passes = 0;

  /** @throws SluiceError for an unusable key, address or file of certificates. */
  constructor(options: OpenaiModelOptions, context: EngineContext) {
    const { environment, logger, clock } = context;
    const each = endpointsOf(options);
    const secureContext = trustOf(environment);
    const servers = each.map((own) => new ServerAccess(own, environment));
    const secrets = servers.flatMap((server) => server.secrets);
    const heaviest = Math.max(...each.map(({ weight }) => weight));
    const addresses = servers.map(({ address }) => address).join(", ");
    const replyMemory = new ReplyMemory();
    this.#clock = clock;
    this.#logger = logger;
    this.endpoints = each.map((own, at) => {
      const maxInFlight = shareOf(options.maxInFlight, own, heaviest);
      return new Endpoint(own, {
        ...context,
        ...{
          options,
          server: servers[at]!,
          maxInFlight,
          secureContext,
          addresses,
          secrets,
          watch: this.#watch,
          replyMemory,
          beside: this,
        },
      });
    });
    for (const { pace } of this.endpoints) pace.onRoom(() => this.onRoom());
  }

  /** True if requests have a choice of endpoints. */
  get hasSeveral(): boolean {
    return this.endpoints.length > 1;
  }

  /**
   * Requests that it can usefully hold: the endpoints' capacity, some more to choose from, and
   * refused ones that wait.
   */
  get capacity(): number {
    const { left } = this;
    const taken = left.reduce((sum, { pace }) => sum + pace.limit, this.#held.size);
    return left.length > 1 ? taken + left.length * maxWaitingForEndpoint : taken;
  }

  /** Endpoints that are not excluded. */
  get left(): readonly Endpoint[] {
    return this.endpoints.filter(({ isExcluded }) => !isExcluded);
  }

  /** Permission to send, if an endpoint has room and no request waits for it. */
  tryTake(wish: Wish): SendPermit | undefined {
    return this.#line.size > 0 ? undefined : this.#permitFor(wish);
  }

  /**
   * Permission to send, as soon as an endpoint has room.
   *
   * @throws SluiceError `ENDPOINT_DOWN` if all were down for too long; the signal's reason.
   */
  take(wish: Wish, signal: AbortSignal): Promise<SendPermit> {
    const { promise, resolve, reject } = Promise.withResolvers<SendPermit>();
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

  /**
   * Lets a request wait while others are sent.
   * @throws as `take`.
   */
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
    if (endpoint.isExcluded) return true;
    if (this.left.length === 1) return false;
    this.#logger.log("warn", "the endpoint is left out for now", {
      endpoint: endpoint.address,
      waitMs: endpoint.exclude(),
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
      const [waiter, permit] = granted;
      this.#line.delete(waiter);
      this.#watch.remove(waiter.signal, waiter);
      waiter.resolve(permit);
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

  /** The next request of the line, with its endpoint; undefined if there is no room. */
  #nextOfLine(): [Waiter, SendPermit] | undefined {
    const [first] = this.#line;
    if (first === undefined) return undefined;
    const suited = this.hasSeveral ? this.#suitedOfLine() : undefined;
    if (suited !== undefined) {
      this.#passes = suited[0] === first ? 0 : this.#passes + 1;
      return suited;
    }
    const permit = this.#permitFor(first.wish);
    if (permit === undefined) return undefined;
    this.#passes = 0;
    return [first, permit];
  }

  /** The first of the line whose prefix is at an endpoint with room. */
  #suitedOfLine(): [Waiter, SendPermit] | undefined {
    const open = this.#open;
    const hasRoom = open.some(({ pace }) => pace.inFlight < pace.limit);
    if (!hasRoom || this.#passes >= maxPasses) return undefined;
    let left = open.length * maxWaitingForEndpoint;
    for (const waiter of this.#line) {
      if (left-- === 0) return undefined;
      const permit = permitOfHolder(waiter.wish, open);
      if (permit !== undefined) return [waiter, permit];
    }
    return undefined;
  }

  get #open(): Endpoint[] {
    return this.endpoints.filter(({ isOpen }) => isOpen);
  }

  #permitFor(wish: Wish): SendPermit | undefined {
    const { tokens, avoided } = wish;
    if (!this.hasSeveral) return permitOf(this.endpoints[0]!, tokens);
    let open = this.#open;
    const wanted = this.#probeFor(wish) ?? permitOfHolder(wish, open);
    if (wanted !== undefined) return wanted;
    if (avoided !== undefined && open.some((endpoint) => !avoided.has(endpoint))) {
      open = open.filter((endpoint) => !avoided.has(endpoint));
    }
    while (open.length > 0) {
      const least = leastLoaded(open)!;
      const permit = admitted(least, tokens);
      if (permit !== undefined) return permit;
      open = open.filter((endpoint) => endpoint !== least);
    }
    return undefined;
  }

  /** An endpoint after its pause is tried by the next request that did not fail there. */
  #probeFor({ tokens, avoided }: Wish): SendPermit | undefined {
    for (const endpoint of this.endpoints) {
      if (!endpoint.isProbeDue || endpoint.isExcluded) continue;
      if (avoided?.has(endpoint) && this.isOtherOpen(endpoint)) continue;
      const permit = permitOf(endpoint, tokens);
      if (permit !== undefined) return permit;
    }
    return undefined;
  }
}

interface Held extends Abortable {
  signal: AbortSignal;
}

interface Waiter extends Held {
  wish: Wish;
  resolve(permit: SendPermit): void;
  reject(reason: unknown): void;
}

/** The heaviest of several has the whole limit, the others less in proportion to their weight. */
function shareOf(
  maxInFlight: number | undefined,
  { weight }: EndpointOptions,
  heaviest: number,
): number | undefined {
  if (maxInFlight === undefined) return undefined;
  return Math.max(1, Math.round((maxInFlight * weight) / heaviest));
}

/** Permission for the endpoint with the prefix; undefined if that has no room now. */
function permitOfHolder(
  { key, tokens, avoided }: Wish,
  open: readonly Endpoint[],
): SendPermit | undefined {
  if (key === undefined) return undefined;
  const holder = holderOf(key, open);
  if (holder === undefined || avoided?.has(holder)) return undefined;
  return admitted(holder, tokens);
}

/** Permission for an endpoint, also as a probe. */
function permitOf(endpoint: Endpoint, tokens: number): SendPermit | undefined {
  if (endpoint.isOpen) return admitted(endpoint, tokens);
  if (!endpoint.isProbeDue) return undefined;
  const admission = endpoint.pace.tryAdmit(tokens);
  if (admission === undefined) return undefined;
  endpoint.isProbeDue = false;
  return { endpoint, admission, isProbe: true };
}

function admitted(endpoint: Endpoint, tokens: number): SendPermit | undefined {
  const admission = endpoint.pace.tryAdmit(tokens);
  return admission && { endpoint, admission, isProbe: false };
}
