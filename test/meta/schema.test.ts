import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "./source-tree.ts";

describe("JSON Schema of the job file", () => {
  const committed = JSON.parse(readFileSync(join(root, "schema/job.json"), "utf8")) as {
    properties: Record<string, unknown>;
  };

  it("is what the program prints now", () => {
    const printed = execFileSync(process.execPath, [join(root, "bin/sluice.cjs"), "schema"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect(committed).toEqual(JSON.parse(printed));
  });

  it("has the keys of a job", () => {
    expect(Object.keys(committed.properties)).toEqual(
      expect.arrayContaining(["input", "model", "prompt", "prompts", "generation", "output"]),
    );
  });
});
