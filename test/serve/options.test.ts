import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { serveSchema } from "../../src/serve/options.ts";
import { root } from "../meta/source-tree.ts";

describe("limits of a server", () => {
  it("are all in docs/serve.md, with their defaults", () => {
    const text = readFileSync(join(root, "docs/serve.md"), "utf8");
    const rows = text.matchAll(/^\| `(\w+)` \| ([\d,]+)( [KM]iB)? \|/gm);
    const units: Record<string, number> = { " KiB": 1024, " MiB": 1024 ** 2 };
    const documented = Array.from(rows, ([, key, number, unit = ""]) => {
      return [key, Number(number!.replaceAll(",", "")) * (units[unit] ?? 1)];
    });
    expect(Object.fromEntries(documented)).toEqual(serveSchema.parse({ models: {} }).limits);
  });
});
