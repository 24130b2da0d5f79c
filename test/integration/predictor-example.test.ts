import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { root } from "../meta/source-tree.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-predictor-example-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("examples/predictor tells praise from complaints", async () => {
  cpSync(join(root, "examples/predictor"), folder, {
    recursive: true,
    filter: (path) => !path.endsWith("/out"),
  });
  const output = ["--output", "results.jsonl"];
  const { code, stderr } = await runSluice(["run", "-c", "job.yaml", ...output], folder);
  expect(code, stderr).toBe(0);
  const lines = readFileSync(join(folder, "results.jsonl"), "utf8").trim().split("\n");
  const labels = lines.map((line) => {
    const { id, sentiment } = JSON.parse(line) as { id: string; sentiment: { label: string } };
    return [id, sentiment.label];
  });
  // Odd reviews praise, even ones complain.
  const expected = Array.from({ length: 12 }, (_, at) => [
    `r${String(at + 1).padStart(2, "0")}`,
    at % 2 === 0 ? "praise" : "complaint",
  ]);
  expect(labels).toEqual(expected);
});
