import { describe, expect, it } from "vitest";
import { findList, fromList } from "../../../src/data/formats/json-list.ts";
import { readerOf } from "./reading.ts";

/** What lies from the list on, with every size of chunks. */
async function listOf(text: string, path: string): Promise<string> {
  const found = new Set<number>();
  for (const chunkBytes of [3, 4, 5, 64]) {
    found.add(await findList(readerOf(text), "f.json", path.split("."), chunkBytes));
  }
  expect(found.size).toBe(1);
  return Buffer.from(text)
    .subarray([...found][0]!)
    .toString();
}

describe("findList", () => {
  it("finds a list by its keys, past all that looks alike", async () => {
    expect(await listOf('{"rows":[1]}', "rows")).toBe("[1]}");
    expect(await listOf('\uFEFF { "a" : {"rows":[0]}, "rows" :\n [1] }', "rows")).toBe("[1] }");
    expect(await listOf('{"t":"\\"rows\\": [","x":[{"rows":[0]}],"rows":[1]}', "rows")).toBe(
      "[1]}",
    );
    expect(await listOf('{"b":{"rows":[0]},"a":{"x":"é","b":{"rows":[1]}}}', "a.b.rows")).toBe(
      "[1]}}}",
    );
    expect(await listOf('{"r\\u00f6ws":[1]}', "röws")).toBe("[1]}");
  });

  it.each([
    ['{"row":[1],"x":2}', "rows", "it has no key rows; did you mean row?"],
    ['{"a":{"b":[1]}}', "a.rows", "it has no key a.rows; its keys are b"],
    ['{"rows":{"a":1}}', "rows", "rows is an object, not a list"],
    ['{"a":[{"rows":[1]}]}', "a.rows", "a is a list, not an object"],
    ["[1]", "rows", "it is a list at its top"],
    ["", "rows", "it has no key rows"],
    ['{"rows":', "rows", "it ends before the list"],
  ])("says what %s has in place of it", async (text, path, message) => {
    await expect(findList(readerOf(text), "f.json", path.split("."), 64)).rejects.toThrow(message);
  });
});

it("fromList blanks what stands before the list, and keeps places and lines", async () => {
  const text = '{"a":\n1,"rows":[2]}';
  const reader = fromList(readerOf(text), text.indexOf("[2"));
  expect(Buffer.from(await reader.read(0, 99)).toString()).toBe("     \n         [2]}");
  expect(Buffer.from(await reader.read(13, 4)).toString()).toBe("  [2");
});
