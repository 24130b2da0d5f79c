import { describe, expect, it } from "vitest";
import { RefusalCeiling } from "../../../../src/engines/openai/pace/refusals.ts";

/**
 * A caller that always has as much under way as the ceiling allows, at an endpoint that takes
 * `places` at once and answers in the order of asking, one each millisecond.
 */
class Saturated {
  readonly ceiling = new RefusalCeiling();
  places: number;
  refused = 0;
  answered = 0;
  mostRefusedInARow = 0;
  #refusedInARow = 0;
  #nowMs = 0;
  #sent = 0;
  readonly #running: { inFlight: number; number: number; atMs: number }[] = [];

  constructor(places: number) {
    this.places = places;
  }

  get inFlight(): number {
    return this.#running.length;
  }

  /** Has so many answered. */
  answer(count: number): void {
    for (let time = 0; time < count; time++) {
      this.#nowMs++;
      const isBound = this.#running.length >= this.ceiling.ceiling;
      const first = this.#running.shift();
      if (first) {
        this.answered++;
        this.#refusedInARow = 0;
        this.ceiling.answered(first, isBound, this.#nowMs);
      }
      this.send(Math.min(400, this.ceiling.ceiling));
    }
  }

  send(limit: number): void {
    while (this.#running.length < Math.min(limit, this.ceiling.ceiling)) {
      const inFlight = this.#running.length + 1;
      const sent = { inFlight, number: this.#sent++, atMs: this.#nowMs };
      if (inFlight <= this.places) {
        this.#running.push(sent);
        continue;
      }
      this.refused++;
      this.mostRefusedInARow = Math.max(this.mostRefusedInARow, ++this.#refusedInARow);
      this.ceiling.refused(sent, this.#sent, this.#nowMs);
    }
  }
}

describe("RefusalCeiling", () => {
  it("knows none before the first refusal, which says exactly where it is", () => {
    const { ceiling } = new RefusalCeiling();
    expect(ceiling).toBe(Number.POSITIVE_INFINITY);
    const caller = new Saturated(40);
    caller.answer(1);
    expect([caller.ceiling.ceiling, caller.refused]).toEqual([40, 1]);
  });

  it("learns from requests that were under way together where it is, in one", () => {
    const ceiling = new RefusalCeiling();
    for (let inFlight = 5; inFlight <= 16; inFlight++) {
      ceiling.refused({ inFlight, number: inFlight - 1, atMs: 0 }, 16, 20);
    }
    expect(ceiling.ceiling).toBe(4);
  });

  it("holds the endpoint full, and pays for each try above with answers", () => {
    const caller = new Saturated(40);
    let inFlight = 0;
    for (let count = 0; count < 20_000; count++) {
      caller.answer(1);
      inFlight += caller.inFlight;
    }
    // One place or so is given up now and then, for others who may share the endpoint.
    expect(inFlight / 20_000 / 40).toBeGreaterThan(0.98);
    expect(caller.refused).toBeGreaterThan(40);
    expect(caller.refused / caller.answered).toBeLessThan(0.0075);
  });

  it("follows an endpoint that takes fewer, within few refusals", () => {
    const caller = new Saturated(200);
    caller.answer(2000);
    const before = caller.refused;
    caller.places = 30;
    caller.answer(2000);
    expect(caller.ceiling.ceiling).toBeGreaterThanOrEqual(28);
    expect(caller.ceiling.ceiling).toBeLessThanOrEqual(31);
    expect(caller.refused - before).toBeLessThan(40);
  });

  it("follows an endpoint that takes many more, in a few rounds", () => {
    const caller = new Saturated(20);
    caller.answer(2000);
    caller.places = 300;
    caller.answer(2000);
    expect(caller.ceiling.ceiling).toBeGreaterThan(285);
  });

  it("never falls below one, and rises again after an outage", () => {
    const caller = new Saturated(50);
    caller.answer(500);
    caller.places = 0;
    for (let time = 0; time < 40; time++) {
      caller.ceiling.refused({ inFlight: 1, number: 1e6 + time, atMs: 0 }, 1e6 + time + 1, 1);
    }
    expect(caller.ceiling.ceiling).toBe(1);
    const after = new RefusalCeiling();
    let number = 0;
    for (let time = 0; time < 9; time++)
      after.refused({ inFlight: 1, number: number++, atMs: 0 }, number, 1);
    for (let time = 0; time < 3000; time++) {
      after.answered({ inFlight: 1, number: number++, atMs: time }, true, 100 * time);
    }
    expect(after.ceiling).toBeGreaterThan(100);
  });

  it("does not rise where the caller has too little to reach it", () => {
    const ceiling = new RefusalCeiling();
    ceiling.refused({ inFlight: 11, number: 10, atMs: 0 }, 11, 5);
    for (let number = 11; number < 5000; number++) {
      ceiling.answered({ inFlight: 3, number, atMs: number }, false, number);
    }
    expect(ceiling.ceiling).toBe(10);
  });
});
