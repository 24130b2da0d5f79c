import { describe, expect, it } from "vitest";
import { cutGroups, sliceOf } from "../../../src/data/formats/cut-groups.ts";

/** Groups of so many rows, each row of 10 bytes, behind a header of 4. */
function groupsOf(...rows: number[]) {
  let end = 4;
  return rows.map((count) => {
    const start = end;
    end += 10 * count;
    return { start, end, rows: count };
  });
}

const cut = (rows: number[], rule: { everyRows: number; atOwnBorders?: boolean }) =>
  cutGroups(groupsOf(...rows), { firstCutRows: rule.everyRows, maxLineBytes: 100, ...rule });

describe("cutGroups", () => {
  it("ends ranges where groups end, if it may", () => {
    const ranges = cut([5, 5, 5], { everyRows: 6, atOwnBorders: true });
    expect(ranges.map(({ rows }) => rows)).toEqual([10, 5]);
  });

  it("cuts at every so many rows where it must", () => {
    const ranges = cut([5, 5, 5], { everyRows: 6 });
    const places = ranges.map(({ firstRow, skipRows, rows }) => [firstRow, skipRows, rows]);
    expect(places).toEqual([
      [1, 0, 6],
      [6, 1, 6],
      [11, 2, 3],
    ]);
  });

  it("divides a large group into equal parts", () => {
    const ranges = cut([3, 50], { everyRows: 12, atOwnBorders: true });
    expect(ranges.map(({ rows }) => rows)).toEqual([3, 10, 10, 10, 10, 10]);
  });
});

describe("sliceOf", () => {
  it("spans the bytes of the range's groups", () => {
    const [, second] = cut([5, 5, 5], { everyRows: 6 });
    const place = { start: 54, end: 154, rows: 6, skipRows: 1, firstLine: 6 };
    expect(sliceOf(second!, "digest")).toEqual({ ...place, sha256: "digest" });
  });
});
