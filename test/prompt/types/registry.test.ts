import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { promptTypes } from "../../../src/prompt/types/registry.ts";

const jobFile = join(import.meta.dirname, "../../../docs/job-file.md");

describe("prompt types", () => {
  it("have names of their own", () => {
    const names = promptTypes.flatMap((type) => type.names);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
  });

  it("are all in the document, each with its styles", () => {
    const text = readFileSync(jobFile, "utf8");
    const section = text.slice(text.indexOf("## Prompt types"), text.indexOf("## What a change"));
    const rows = section.split("\n").filter((line) => line.startsWith("| `"));
    const isDocumented = (name: string) => {
      const [base, style] = name.split(":");
      const row = rows.find((line) => line.includes(`\`${base}\``));
      return row !== undefined && (style === undefined || row.includes(`:${style}\``));
    };
    const first = promptTypes.map(({ names }) => names[0]);
    expect(first.filter((name) => !isDocumented(name))).toEqual([]);
  });
});
