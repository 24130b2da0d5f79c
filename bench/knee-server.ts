import type { Clock } from "../src/foundation/clock.ts";

// A server with a knee, and the time it lives in. Nothing is computed and nobody waits: hours of
// load pass in seconds.

/** Time that jumps from event to event. */
export class EventTime implements Clock {
  readonly #events: { atMs: number; order: number; callback: (() => void) | undefined }[] = [];
  #nowMs = 0;
  #order = 0;

  now = () => this.#nowMs;

  monotonic = () => this.#nowMs;

  schedule(delayMs: number, callback: () => void): () => void {
    const event = { atMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, callback };
    this.#rise(this.#events.push(event) - 1);
    return () => Object.assign(event, { callback: undefined });
  }

  /** Lets time pass until `endMs`. */
  async runUntil(endMs: number): Promise<void> {
    for (let first = this.#events[0]; first && first.atMs <= endMs; first = this.#events[0]) {
      const last = this.#events.pop()!;
      if (last !== first) {
        this.#events[0] = last;
        this.#sink(0);
      }
      this.#nowMs = Math.max(this.#nowMs, first.atMs);
      first.callback?.();
      // What follows from it without any time passing.
      await undefined;
    }
    this.#nowMs = endMs;
  }

  #rise(from: number): void {
    for (let at = from; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #sink(from: number): void {
    for (let at = from; ; ) {
      let least = 2 * at + 1;
      if (least >= this.#events.length) return;
      if (least + 1 < this.#events.length && this.#isBefore(least + 1, least)) least++;
      if (!this.#isBefore(least, at)) return;
      this.#swap(at, least);
      at = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#events[one]!, this.#events[other]!];
    return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
  }

  #swap(one: number, other: number): void {
    const events = this.#events;
    [events[one], events[other]] = [events[other]!, events[one]!];
  }
}

/** One request, by what it costs. */
export interface Work {
  promptTokens: number;
  completionTokens: number;
  /** Tokens that the answer might have had. */
  maxTokens: number;
}

export interface ServerReply {
  status: 200 | 429;
  headers: Record<string, string>;
  retryAfterMs?: number | undefined;
}

export interface KneeServerOptions {
  time: EventTime;
  /** Requests that it computes at once, or takes at all; moves with time. */
  kneeAt(nowMs: number): number;
  /**
   * What lies beyond the knee. `queue`: requests wait for one of the places. `thrash`: it computes
   * all, and gets less done the more there are. `refuse`: 429.
   */
  beyond: "queue" | "thrash" | "refuse";
  /** Tokens a second of one request alone. */
  aloneTokensPerSecond: number;
  /** At this many at once, each is half as fast as alone. */
  halfSpeedAt: number;
  /** What a request takes besides its tokens, and a refusal. */
  overheadMs: number;
  /** What a refusal says of when to come again. */
  retryAfterMs?: number;
  /** Called for each request: whether it is refused whatever else there is. */
  refusesByChance?(): boolean;
  /** Tokens a minute that it grants, in any case, and says so in headers. */
  tokensPerMinuteAt?(nowMs: number): number;
}

interface Job {
  endsAtProgress: number;
  order: number;
  respond: (reply: ServerReply) => void;
}

/** All that compute share the server alike, as requests in one batch of a language model do. */
export class KneeServer {
  readonly #options: KneeServerOptions;
  /** Soonest first. */
  readonly #running: Job[] = [];
  readonly #waiting: { work: Work; respond: Job["respond"] }[] = [];
  /** Tokens that a request has got that ran from the start. */
  #progress = 0;
  #atMs = 0;
  #order = 0;
  #cancel: (() => void) | undefined;
  #tokensLeft: number | undefined;
  #grantedAtMs = 0;
  refused = 0;

  constructor(options: KneeServerOptions) {
    this.#options = options;
  }

  /** Its load as vLLM tells it. */
  get metrics(): string {
    const figures = { running: this.#running.length, waiting: this.#waiting.length };
    return Object.entries(figures)
      .map(([name, value]) => `vllm:num_requests_${name}{engine="0",model_name="m"} ${value}.0\n`)
      .join("");
  }

  send(work: Work, respond: (reply: ServerReply) => void): void {
    const { time, beyond, overheadMs, retryAfterMs } = this.#options;
    this.#advance();
    const isTooMany =
      (beyond === "refuse" && this.#running.length >= this.#knee) ||
      (this.#options.refusesByChance?.() ?? false);
    const isGranted = !isTooMany && this.#grant(work);
    const headers = this.#rateHeaders();
    if (isGranted) {
      this.#waiting.push({ work, respond: (reply) => respond({ ...reply, headers }) });
      return this.#fill();
    }
    this.refused++;
    time.schedule(overheadMs / 4, () => respond({ status: 429, headers, retryAfterMs }));
  }

  /** Takes the request's tokens from what is left of the minute's. */
  #grant({ promptTokens, maxTokens }: Work): boolean {
    const { time, tokensPerMinuteAt } = this.#options;
    if (tokensPerMinuteAt === undefined) return true;
    const nowMs = time.monotonic();
    const limit = tokensPerMinuteAt(nowMs);
    this.#tokensLeft ??= limit;
    const filled = ((nowMs - this.#grantedAtMs) / 60_000) * limit;
    this.#tokensLeft = Math.min(limit, this.#tokensLeft + filled);
    this.#grantedAtMs = nowMs;
    if (this.#tokensLeft < promptTokens + maxTokens) return false;
    this.#tokensLeft -= promptTokens + maxTokens;
    return true;
  }

  #rateHeaders(): Record<string, string> {
    const { time, tokensPerMinuteAt } = this.#options;
    if (tokensPerMinuteAt === undefined) return {};
    const limit = tokensPerMinuteAt(time.monotonic());
    const missing = limit - this.#tokensLeft!;
    return {
      "x-ratelimit-limit-tokens": `${limit}`,
      "x-ratelimit-remaining-tokens": `${Math.floor(this.#tokensLeft!)}`,
      "x-ratelimit-reset-tokens": `${((missing / limit) * 60).toFixed(3)}s`,
    };
  }

  get #knee(): number {
    return this.#options.kneeAt(this.#options.time.monotonic());
  }

  get #tokensPerSecond(): number {
    const { aloneTokensPerSecond, halfSpeedAt, beyond } = this.#options;
    const count = this.#running.length;
    const knee = this.#knee;
    const at = Math.min(count, knee);
    const each = aloneTokensPerSecond / (1 + at / halfSpeedAt);
    if (count <= knee || beyond !== "thrash") return each;
    const share = Math.max(0.2, 1 - 0.5 * ((count - knee) / knee));
    return (each * knee * share) / count;
  }

  #advance(): void {
    const nowMs = this.#options.time.monotonic();
    this.#progress += (this.#tokensPerSecond * (nowMs - this.#atMs)) / 1000;
    this.#atMs = nowMs;
  }

  #fill(): void {
    const isQueue = this.#options.beyond === "queue";
    const { overheadMs, aloneTokensPerSecond } = this.#options;
    while (this.#waiting.length > 0 && (!isQueue || this.#running.length < this.#knee)) {
      const { work, respond } = this.#waiting.shift()!;
      const overhead = (overheadMs / 1000) * aloneTokensPerSecond;
      const tokens = work.completionTokens + work.promptTokens / 20 + overhead;
      this.#insert({ endsAtProgress: this.#progress + tokens, order: this.#order++, respond });
    }
    this.#arm();
  }

  #insert(job: Job): void {
    let low = 0;
    let high = this.#running.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#running[middle]!.endsAtProgress <= job.endsAtProgress) low = middle + 1;
      else high = middle;
    }
    this.#running.splice(low, 0, job);
  }

  #arm(): void {
    this.#cancel?.();
    const first = this.#running[0];
    if (!first) return;
    const left = Math.max(0, first.endsAtProgress - this.#progress);
    const inMs = (left / this.#tokensPerSecond) * 1000;
    // The knee may move meanwhile.
    this.#cancel = this.#options.time.schedule(Math.min(inMs, 1000), () => this.#step());
  }

  #step(): void {
    this.#advance();
    const ended: Job[] = [];
    while (this.#running[0] && this.#running[0].endsAtProgress <= this.#progress + 1e-6) {
      ended.push(this.#running.shift()!);
    }
    this.#fill();
    for (const { respond } of ended) respond({ status: 200, headers: {} });
  }
}
