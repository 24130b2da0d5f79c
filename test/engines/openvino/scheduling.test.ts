import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { pythonMissing } from "../command/python.ts";

const missing = pythonMissing();
const modules = join(import.meta.dirname, "../../../python");

/** What a program of this folder prints. */
function said(program: string): unknown {
  const env = { ...process.env, PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: "1" };
  return JSON.parse(
    execFileSync("python3", [join(import.meta.dirname, program)], { env }).toString(),
  );
}

describe("python/sluice_openvino.py", () => {
  it("has prompts that begin alike wait for the first of them, and no others", (context) => {
    context.skip(missing !== undefined, missing);
    expect(said("prefixes.py")).toEqual({
      shared: 3,
      short: [],
      first: false,
      "second, while the first is computed": true,
      "another one": false,
      "second, once the first was given up": false,
      "third, beyond what is known": true,
      "fourth, of the known beginning": false,
    });
  });

  it("begins what the cache has room for, and anything where nothing runs", (context) => {
    context.skip(missing !== undefined, missing);
    expect(said("room.py")).toEqual({
      own: 2,
      "of four beams": 8,
      "with a common beginning": true,
      "where nine of ten are taken": false,
      smaller: true,
      "own, since answers are short": 1,
      "after one has ended": true,
      "alone, too large": true,
      "beside it": false,
    });
  });
});
