import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { generatedFiles, root, withKeys } from "../../scripts/generated-docs.ts";
import { fullSupport } from "../../src/engines/parameter-support.ts";
import { jobKeys, keysOf } from "../../src/run/job/keys.ts";

describe("files that npm run docs writes", () => {
  const files = [...generatedFiles()];

  it("are six", () => {
    expect(files.map(([path]) => path)).toEqual([
      "schema/job.json",
      "docs/job-file.md",
      "docs/engines.md",
      "docs/errors.md",
      "src/run/job/job-input.ts",
      "src/run/job/model-input.ts",
    ]);
  });

  it.each(files)("%s is current", (path, text) => {
    expect(readFileSync(`${root}${path}`, "utf8")).toBe(text);
  });

  it("have a row for every key", () => {
    const text = generatedFiles().get("docs/job-file.md")!;
    const rows = jobKeys().map(({ path, otherNames }) => {
      const others = otherNames.map((name) => `, \`${name.split(".").at(-1)}\``).join("");
      return `| \`${path}\`${others} |`;
    });
    expect(rows.filter((row) => !text.includes(row))).toEqual([]);
  });

  it("have a row for every generation parameter that an engine may refuse", () => {
    const text = generatedFiles().get("docs/engines.md")!;
    const rows = Object.keys(fullSupport).map((name) => `| \`${name}\` |`);
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter((row) => !text.includes(row))).toEqual([]);
    expect(text).toMatch(/\| `numBeams` \| refused \| yes \| refused \| refused \| yes \|/);
    expect(text).toMatch(/\| `topK` \| yes \| yes \| yes \| refused \| yes \|/);
  });

  it("keep the prose around the tables, which hold the keys of a new schema at once", () => {
    const begin = "<!-- keys begin: written by npm run docs -->";
    const end = "<!-- keys end -->";
    const keys = keysOf({ properties: { fresh: { type: "string", description: "New" } } });
    const text = withKeys(`before\n${begin}\nold\n${end}\nafter\n`, keys);
    expect(text).toMatch(/^before\n/);
    expect(text).toMatch(/\nafter\n$/);
    expect(text).not.toContain("\nold\n");
    expect(text).toContain("| `fresh` | text |  | operation | New |");
    expect(() => withKeys("no marks", keys)).toThrow(/lacks/);
  });
});
