import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { generatedFiles, root, withKeys } from "../../scripts/generated-docs.ts";
import { jobKeys } from "../../src/run/job/keys.ts";

describe("files that npm run docs writes", () => {
  const files = [...generatedFiles()];

  it("are three", () => {
    expect(files.map(([path]) => path)).toEqual([
      "schema/job.json",
      "docs/job-file.md",
      "docs/errors.md",
    ]);
  });

  it.each(files)("%s is current", (path, text) => {
    expect(readFileSync(`${root}${path}`, "utf8")).toBe(text);
  });

  it("have a row for every key", () => {
    const text = generatedFiles().get("docs/job-file.md")!;
    const missing = jobKeys().filter(({ path }) => !text.includes(`| \`${path}\` |`));
    expect(missing).toEqual([]);
  });

  it("keep the prose around the tables", () => {
    const begin = "<!-- keys begin: written by npm run docs -->";
    const end = "<!-- keys end -->";
    const text = withKeys(`before\n${begin}\nold\n${end}\nafter\n`);
    expect(text).toMatch(/^before\n/);
    expect(text).toMatch(/\nafter\n$/);
    expect(text).not.toContain("\nold\n");
    expect(() => withKeys("no marks")).toThrow(/lacks/);
  });
});
