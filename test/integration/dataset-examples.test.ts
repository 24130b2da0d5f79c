import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { verify } from "../../src/api/inspect.ts";
import { root } from "../meta/source-tree.ts";
import { runCommandLine } from "./dataset-program.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-examples-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The example as it stands, in a folder of its own. */
function copyOf(name: string): string {
  const copy = join(folder, name);
  cpSync(join(root, "examples", name), copy, { recursive: true });
  return join(copy, "job.ts");
}

describe("the quick start of Ray Data", () => {
  it("shows one of two rows that a model answered", async () => {
    const { code, stdout, stderr } = await runCommandLine(copyOf("ray-quick-start-text"), [], {
      TEXT_MODEL: "fake",
    });
    expect(code, stderr).toBe(0);
    const shown = stdout.trim().split("\n");
    expect(shown).toHaveLength(1);
    expect(JSON.parse(shown[0]!)).toEqual({
      data: "Complete this: for a moment,",
      output: expect.stringMatching(/\w+/),
    });
  });

  it("spreads 10,000 rows over 20 replicas of a predictor", async () => {
    const output = join(folder, "predicted");
    const { code, stdout, stderr } = await runCommandLine(copyOf("ray-quick-start-replicas"), [
      output,
    ]);
    expect(code, stderr).toBe(0);
    expect(stdout).toContain("10000 results by 20 replicas");
    const { manifest, damages } = await verify(output);
    expect(damages).toEqual([]);
    expect(manifest?.tasks.map(({ rows }) => rows)).toEqual(Array(20).fill(500));
    const lines = readdirSync(output)
      .filter((name) => name.startsWith("part-"))
      .sort()
      .flatMap((name) => readFileSync(join(output, name), "utf8").trim().split("\n"))
      .map((line) => JSON.parse(line) as { id: number; value: number; prediction: number });
    expect(lines).toHaveLength(10_000);
    for (const [at, { id, value, prediction }] of lines.entries()) {
      expect([id, prediction]).toEqual([at, 2 * value + 1]);
    }
  });
});
