import { describe, expect, it } from "vitest";
import { FakeFaults } from "../../../src/engines/fake/faults.ts";
import { chatRequest } from "../engine-context.ts";

const none = { seed: 1, failureRate: 0, failures: [] };
const rows = Array.from({ length: 4000 }, (_, index) => chatRequest(index));

describe("FakeFaults", () => {
  it("by row strike that row each time it is asked", () => {
    const faults = new FakeFaults({ ...none, failures: [{ row: 3, kind: "retryable" }] });
    expect(rows.slice(0, 5).map((row) => faults.next(row) ?? "-")).toEqual([
      "-",
      "-",
      "-",
      "retryable",
      "-",
    ]);
    expect([1, 2, 3].map(() => faults.next(rows[3]!))).toEqual(Array(3).fill("retryable"));
  });

  it("by rate strike a share of rows, the same ones in any order", () => {
    const failures = [{ rate: 0.1, kind: "refused" as const }];
    const struck = struckBy(new FakeFaults({ ...none, failures }), rows);
    expect(struck.length).toBeGreaterThan(300);
    expect(struck.length).toBeLessThan(500);
    const reversed = struckBy(new FakeFaults({ ...none, failures }), rows.toReversed());
    expect(reversed.toReversed()).toEqual(struck);
    const other = struckBy(new FakeFaults({ ...none, seed: 2, failures }), rows);
    expect(other).not.toEqual(struck);
  });

  it("by rate and retryable strike once", () => {
    const faults = new FakeFaults({ ...none, failures: [{ rate: 1, kind: "retryable" }] });
    expect([faults.next(rows[0]!), faults.next(rows[0]!)]).toEqual(["retryable", undefined]);
  });

  it("failureRate is a share of asks, asks again included", () => {
    const faults = new FakeFaults({ ...none, failureRate: 0.6 });
    let waiting = rows;
    const left: number[] = [];
    for (let round = 0; round < 3; round++) {
      waiting = waiting.filter((row) => faults.next(row) === "retryable");
      left.push(waiting.length / rows.length);
    }
    expect(left.map((share) => share.toFixed(1))).toEqual(["0.6", "0.4", "0.2"]);
  });

  it("failureRate decides for each prompt and element of a row by itself", () => {
    const faults = new FakeFaults({ ...none, failureRate: 0.5 });
    const asks = Array.from({ length: 64 }, (_, element) => ({ ...rows[0]!, element }));
    const struck = asks.filter((ask) => faults.next(ask) === "retryable").length;
    expect(struck).toBeGreaterThan(8);
    expect(struck).toBeLessThan(56);
  });

  it("need a row or a rate", () => {
    const failures = [{ kind: "refused" as const }];
    expect(() => new FakeFaults({ ...none, failures })).toThrow(/exactly one of row and rate/);
  });
});

function struckBy(faults: FakeFaults, requests: typeof rows): number[] {
  return requests
    .filter((row) => faults.next(row) !== undefined)
    .map(({ origin }) => origin!.index);
}
