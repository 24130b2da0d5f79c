import { describe, expect, it } from "vitest";
import { indexesIn, maxBoundedRanges } from "../../../src/foundation/index-set.ts";
import { maxAnnouncedRows, RowReach } from "../../../src/run/execute/row-reach.ts";

/** A reach, what it says, and what a listener that keeps it knows. */
function reaching(suspects: number[] = []) {
  const said: string[] = [];
  let known = new Set<number>();
  const reach = new RowReach(suspects, (text, isAll) => {
    said.push(isAll ? `all ${text}` : text);
    if (isAll) known = new Set();
    for (const index of text === "" ? [] : indexesIn(text)) known.add(index);
  });
  /** Lets rows pass; each must be known by then. */
  const pass = (...indexes: number[]) => {
    for (const [at, index] of indexes.entries()) {
      reach.pass({ upcoming: (most) => indexes.slice(at, at + most) });
      expect(known.has(index)).toBe(true);
    }
  };
  return { said, reach, pass, known: () => [...known] };
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("RowReach", () => {
  it("announces every row before it is asked, more at once the faster they come", () => {
    const { said, pass } = reaching();
    pass(...upTo(10_000));
    expect(said.slice(0, 4)).toEqual(["0", "1-2", "3-6", "7-14"]);
    expect(said.length).toBeLessThan(60);
    expect(Math.max(...said.map((text) => [...indexesIn(text)].length))).toBe(maxAnnouncedRows);
  });

  it("announces rows in whatever order they are asked, and none beside them", () => {
    const { pass, known } = reaching();
    pass(40, 3, 17);
    expect(known()).toEqual([40, 3, 17]);
    pass(16, 2);
    expect(known().toSorted((a, b) => a - b)).toEqual([2, 3, 16, 17, 40]);
  });

  it("says anew which rows have not come back, and goes on row by row", () => {
    const { said, reach, pass } = reaching();
    pass(0, 1, 2);
    reach.restate((row) => row !== 1);
    pass(3, 4);
    reach.restate((row) => row >= 3);
    reach.restate((row) => row >= 3);
    reach.restate(() => false);
    expect(said.slice(2)).toEqual(["all 0,2", "3", "4", "all 3-4", "all "]);
  });

  it("holds to rows that were suspected from the start until they come back", () => {
    const { said, reach, pass } = reaching([5, 9]);
    pass(5);
    reach.restate((row) => row !== 5);
    expect(said).toEqual(["all 5,9", "5", "all 9"]);
  });

  it("says too much rather than send a large message", () => {
    const { said, reach, pass } = reaching();
    pass(...upTo(2 * maxBoundedRanges + 4).map((row) => row * 2));
    reach.restate(() => true);
    expect(said.at(-1)).toBe(`all 0-${4 * maxBoundedRanges + 6}`);
  });
});
