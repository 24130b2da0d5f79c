import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import type { JournalLine } from "../../../src/run/attempt/journal-line.ts";
import { OutcomeTable } from "../../../src/run/attempt/outcomes.ts";
import { type EarlierEnds, SuspectSearch } from "../../../src/run/attempt/suspects.ts";
import type { Task } from "../../../src/run/plan/plan.ts";

const place = { offset: 0, bytes: 1 };

/** Rows 10 to 19, some of them answered. */
function outcomesOf(...answered: number[]): OutcomeTable {
  const outcomes = new OutcomeTable({ task: 1, firstRow: 10, rows: 10, slices: [] } as Task);
  for (const row of answered) outcomes.settle(row, "answered", place);
  return outcomes;
}

const failed = (index: number): JournalLine => ({
  index,
  outcome: "failed",
  error: { code: "SERVER_ERROR", message: "" },
  attempts: 1,
  requests: [],
});
const asked = (index: number, together: number): JournalLine => ({
  index,
  outcome: "asked",
  together,
});

function searched(ends: EarlierEnds, lines: [attempt: string, line: JournalLine][] = []) {
  const search = new SuspectSearch(ends);
  for (const [attempt, line] of lines) search.read(line, attempt);
  return search;
}

const died = (attempt: string, rows: string, together = 8): EarlierEnds => ({
  suspects: { attempt, rows, together },
});

describe("suspected rows", () => {
  it("are those that were asked and have no outcome, and no others", () => {
    const { rows, together } = searched(died("a", "11-12,14,18")).suspected(outcomesOf(10, 12, 13));
    expect([...rows]).toEqual([11, 14, 18]);
    expect(together).toBe(1);
  });

  it("are not those that failed in the attempt that died: they came back", () => {
    const search = searched(died("b", "10-13"), [
      ["a", failed(10)],
      ["a", failed(11)],
      ["b", failed(11)],
    ]);
    // Row 10 failed before, was asked again by the attempt that died, and did not come back.
    expect([...search.suspected(outcomesOf()).rows]).toEqual([10, 12, 13]);
  });

  it("are half as many at once, and never more than is told", () => {
    const atOnce = (lastRow: number, most: number) =>
      searched(died("a", `10-${lastRow}`, most)).suspected(outcomesOf()).together;
    expect([atOnce(10, 8), atOnce(15, 8), atOnce(19, 8), atOnce(19, 2)]).toEqual([1, 3, 5, 2]);
  });

  it("are none where the attempt asked nothing of the task", () => {
    expect(searched({}).suspected(outcomesOf()).rows.size).toBe(0);
    expect(searched(died("a", "")).suspected(outcomesOf()).rows.size).toBe(0);
  });

  it("end with the task, though more was announced", () => {
    expect([...searched(died("a", "10-400")).suspected(outcomesOf(10, 11, 12)).rows]).toEqual([
      13, 14, 15, 16, 17, 18, 19,
    ]);
  });

  it("include a group that was asked with care, at half its size", () => {
    const search = searched({}, [
      ["a", asked(12, 4)],
      ["a", asked(17, 4)],
    ]);
    const { rows, together } = search.suspected(outcomesOf(17));
    expect([[...rows], together]).toEqual([[12], 2]);
  });
});

describe("a row that stands alone when its worker hangs", () => {
  it("is given up for that, and stays given up for it", () => {
    const alone = ["a", "b", "c"].map((attempt): [string, JournalLine] => [attempt, asked(11, 1)]);
    const stalled = { suspects: { attempt: "c", rows: "11", together: 1, stalled: true } };
    const code = "ROW_STALLS_WORKER";
    expect([...searched(stalled, alone).condemned(outcomesOf())]).toMatchObject([{ code }]);
    const givenUp: JournalLine = {
      ...{ index: 11, outcome: "failed", attempts: 3, requests: [] },
      error: { code, message: "" },
    };
    const search = searched(died("d", "12"), [["d", givenUp]]);
    expect([...search.condemned(outcomesOf())]).toMatchObject([{ index: 11, code }]);
  });
});

describe("rows of a worker that its coordinator ended", () => {
  it("are not suspected, and their last time alone does not count", () => {
    const alone: [string, JournalLine][] = ["a", "b", "c"].map((attempt) => [
      attempt,
      asked(11, 1),
    ]);
    const condemned = (ends: EarlierEnds) => {
      const search = searched(ends, alone);
      const spared = search.spare();
      return [spared, [...search.condemned(outcomesOf())]];
    };
    const code = "ROW_KILLS_ENGINE";
    const blamed = { index: 11, kills: limits.maxRowKills, planned: 1, code };
    expect(condemned({})).toEqual([[], [blamed]]);
    expect(condemned({ spared: "c" })).toEqual([[11], []]);
    expect(condemned({ spared: "d" })).toEqual([[], [blamed]]);
  });

  it("are blamed for each time alone, also when they came back from a group since", () => {
    const search = searched({}, [
      ["a", asked(11, 1)],
      ["b", asked(11, 1)],
      ["c", asked(11, 2)],
      ["c", { index: 11, outcome: "returned" }],
      ["d", asked(11, 1)],
    ]);
    const kills = limits.maxRowKills;
    expect([...search.condemned(outcomesOf())]).toMatchObject([{ index: 11, kills }]);
  });

  it("are suspected no more where they were asked in a group", () => {
    const search = searched({ spared: "a" }, [
      ["a", asked(11, 2)],
      ["a", asked(12, 2)],
    ]);
    expect(search.spare()).toEqual([11, 12]);
    expect(search.suspected(outcomesOf()).rows.size).toBe(0);
  });
});
