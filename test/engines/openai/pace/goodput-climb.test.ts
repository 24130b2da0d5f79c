import { describe, expect, it } from "vitest";
import { EventTime } from "../../../../bench/knee-server.ts";
import { GoodputClimb } from "../../../../src/engines/openai/pace/goodput-climb.ts";
import { seededRandom } from "../../../../src/foundation/random.ts";

interface Endpoint {
  /** Milliseconds a token, with so many in flight. */
  msPerToken(inFlight: number): number;
  /** What it gets done with so many, as a share of the most that it can. */
  share(inFlight: number): number;
}

/** Requests that hinder one another only beyond the knee, where the endpoint gets no more done. */
const saturating = (knee: number): Endpoint => ({
  msPerToken: (inFlight) => 10 * Math.max(1, inFlight / knee),
  share: (inFlight) => Math.min(1, inFlight / knee),
});
const neverHindered: Endpoint = { msPerToken: () => 10, share: () => 1 };
/** Beyond the knee it gets less done the more there are. */
const thrashing = (knee: number): Endpoint => ({
  msPerToken: (inFlight) => 10 * Math.max(1, inFlight / knee) ** 2,
  share: (inFlight) => Math.min(inFlight / knee, knee / inFlight),
});

interface Drive {
  seed?: number;
  cap?: number;
  maxLimit?: number;
  /** Requests that the caller has at most. */
  atMost?: number;
}

/** A climb that is driven by endless requests. */
class Driven {
  readonly time = new EventTime();
  readonly climb: GoodputClimb;
  endpoint: Endpoint;
  readonly #options: Drive;
  readonly #random;
  #inFlight = 0;

  constructor(endpoint: Endpoint, options: Drive = {}) {
    this.endpoint = endpoint;
    this.#options = options;
    this.#random = seededRandom(options.seed ?? 1);
    this.climb = new GoodputClimb(16, options.maxLimit ?? 512);
    if (options.cap !== undefined) this.climb.cap(options.cap);
  }

  /** Its limit at each second of that time. */
  async run(seconds: number): Promise<number[]> {
    const limits: number[] = [];
    this.#pump();
    for (let second = 0; second < seconds; second++) {
      await this.time.runUntil(this.time.monotonic() + 1000);
      limits.push(this.climb.limit(this.time.now()));
    }
    return limits;
  }

  /** Goodput over that time, as a share of the best. */
  async goodput(seconds: number): Promise<number> {
    const limits = await this.run(seconds);
    return mean(limits.map((limit) => this.endpoint.share(limit)));
  }

  #pump(): void {
    const { atMost = 10_000 } = this.#options;
    while (this.#inFlight < Math.min(atMost, this.climb.limit(this.time.now()))) this.#send();
  }

  #send(): void {
    const limitAtAdmission = this.climb.limit(this.time.now());
    const meanInFlight = ++this.#inFlight;
    const size = 1 + Math.round(-100 * Math.log(1 - this.#random.next()));
    const admittedAtMs = this.time.now();
    // Some chance that no size explains.
    const chance = 0.8 + 0.4 * this.#random.next();
    const durationMs = chance * (30 + size * this.endpoint.msPerToken(this.#inFlight));
    this.time.schedule(durationMs, () => {
      const wasFull = this.#inFlight >= this.climb.limit(this.time.now());
      this.#inFlight--;
      const endedAtMs = this.time.now();
      const facts = { admittedAtMs, endedAtMs, limitAtAdmission, wasFull };
      this.climb.answered({ durationMs, size, meanInFlight, ...facts });
      this.#pump();
    });
  }
}

describe("GoodputClimb", () => {
  it("finds the knee from a modest start, wherever it is, and keeps the queue short", async () => {
    for (const knee of [3, 12, 50, 200]) {
      const driven = new Driven(saturating(knee), { seed: knee });
      await driven.run(900);
      const limits = await driven.run(900);
      expect(mean(limits.map((limit) => driven.endpoint.share(limit)))).toBeGreaterThan(0.92);
      expect(mean(limits)).toBeLessThan(3 * knee + 8);
    }
  });

  it("does not stay where the endpoint gets less done", async () => {
    const driven = new Driven(thrashing(40));
    await driven.run(300);
    expect(await driven.goodput(1200)).toBeGreaterThan(0.75);
  });

  it("follows a knee up and down", async () => {
    const driven = new Driven(thrashing(40));
    await driven.run(600);
    driven.endpoint = thrashing(160);
    await driven.run(300);
    expect(await driven.goodput(900)).toBeGreaterThan(0.75);
    driven.endpoint = thrashing(30);
    await driven.run(300);
    expect(await driven.goodput(900)).toBeGreaterThan(0.7);
  });

  it("cuts the limit at once where everything takes much longer than before", async () => {
    const driven = new Driven(saturating(100));
    await driven.run(900);
    const before = mean(await driven.run(30));
    driven.endpoint = { ...saturating(100), msPerToken: (inFlight) => 3 * inFlight };
    expect(Math.min(...(await driven.run(40)))).toBeLessThan(0.7 * before);
  });

  it("goes to its bound where requests never hinder one another, and not beyond", async () => {
    const driven = new Driven(neverHindered, { maxLimit: 300 });
    const limits = await driven.run(300);
    expect(Math.max(...limits)).toBe(300);
    expect(mean(limits.slice(-200))).toBeGreaterThan(285);
  });

  it("is never above what else allows, nor below one", async () => {
    for (const cap of [1, 2, 7, 33]) {
      const limits = await new Driven(neverHindered, { cap }).run(200);
      expect(Math.max(...limits)).toBe(cap);
      expect(mean(limits)).toBeGreaterThan(0.9 * cap);
    }
    const one = { ...thrashing(1), msPerToken: (inFlight: number) => 0.2 * inFlight ** 2 };
    const single = await new Driven(one).run(4000);
    expect(Math.min(...single)).toBe(1);
    expect(mean(single.slice(-500))).toBeLessThan(3);
  });

  it("goes along when what else allows rises", async () => {
    const driven = new Driven(neverHindered, { cap: 20 });
    await driven.run(100);
    driven.climb.cap(90);
    expect((await driven.run(30)).at(-1)).toBe(90);
  });

  it("is not led astray by a caller that has too little to send", async () => {
    const limits = await new Driven(saturating(100), { atMost: 10 }).run(600);
    expect(Math.max(...limits)).toBeLessThanOrEqual(32);
  });

  it("begins again, lower, after an outage, and comes back", async () => {
    const driven = new Driven(saturating(60));
    await driven.run(600);
    for (let time = 0; time < 5; time++) driven.climb.overloaded();
    expect(driven.climb.limit(driven.time.now())).toBeLessThan(20);
    await driven.run(120);
    expect(await driven.goodput(600)).toBeGreaterThan(0.92);
  });
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
