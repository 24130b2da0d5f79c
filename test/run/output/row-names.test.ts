import { describe, expect, it } from "vitest";
import { RowNames } from "../../../src/run/output/write-outputs.ts";

const slice = {
  file: "/a.jsonl",
  format: "jsonl",
  start: 0,
  end: 1,
  rows: 9,
  firstLine: 1,
  sha256: "",
};
const named = (pattern: string, ids: readonly string[]) => {
  const names = new RowNames();
  return ids.map((id, index) =>
    names.take(pattern, { index, slice: { ...slice, id: "id" }, lines: [`{"id":${id}}`] }),
  );
};

describe("names of files by row", () => {
  it("have the id as far as a file's name can", () => {
    const ids = ['"a"', "9007199254740993", '"x/y:z"', '"."', '""', '"é"', "true", "null", "{}"];
    expect(named("{id}.json", ids)).toEqual([
      "a.json",
      "9007199254740993.json",
      "x_y_z.json",
      "_..json",
      "_.json",
      "é.json",
      "true.json",
      "7.json",
      "8.json",
    ]);
    const [latin, wide] = named("{id}.json", [`"${"x".repeat(500)}"`, `"${"語".repeat(500)}"`]);
    expect([latin!.length, wide]).toEqual([125, `${"語".repeat(40)}.json`]);
  });

  it("differ where ids are the same, also from ids that look like what makes them differ", () => {
    const ids = ['"a-1"', '"a"', '"a"', '"a-2"', '"a"'];
    const names = named("{id}.csv.gz", ids);
    expect(names.slice(0, 3)).toEqual(["a-1.csv.gz", "a.csv.gz", "a-2.csv.gz"]);
    expect(new Set(names).size).toBe(ids.length);
    // Where case, or how an accent is written, makes no difference to the file system.
    expect(named("{id}.json", ['"A"', '"a"', '"\u00e9"', '"e\u0301"'])).toEqual([
      "A.json",
      "a-1.json",
      "\u00e9.json",
      "e\u0301-3.json",
    ]);
  });

  it("by index are what they say", () => {
    expect(named("{index}/{id}.json", ['"a"', '"a"'])).toEqual(["0/a.json", "1/a.json"]);
  });
});
