import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { pythonMissing } from "../command/python.ts";

const missing = pythonMissing();
const modules = join(import.meta.dirname, "../../../python");

describe("python/sluice_openvino.py", () => {
  it("has prompts that begin alike wait for the first of them, and no others", (context) => {
    context.skip(missing !== undefined, missing);
    const env = { ...process.env, PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: "1" };
    const said = execFileSync("python3", [join(import.meta.dirname, "prefixes.py")], { env });
    expect(JSON.parse(said.toString())).toEqual({
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
});
