import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { preparedRun, scratchFolder } from "../../run/whole-run.ts";
import { call } from "../call.ts";

const rows = '{"text":"a"}\n{"text":"b"}\n';
const plain = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];

describe("sluice run", () => {
  it("ends with results, where they are, and the summary alone on stdout", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const { stdout, stderr, exitCode } = await call(folder, "run", ...plain, "--show", "1");
    expect(exitCode).toBe(0);
    const lines = stderr.trimEnd().split("\n");
    expect(lines.at(-3)).toMatch(/^result +answer$/);
    expect(lines.at(-1)).toBe(`results: ${folder}/out`);
    expect(stdout.split("\n")).toHaveLength(2);
    expect(JSON.parse(stdout)).toMatchObject({ status: "SUCCESS", output: `${folder}/out` });
    const again = await call(folder, "run", ...plain);
    expect(again.stderr).toBe(`this run is finished, there is nothing to do: ${folder}/out\n`);
  });

  it("refuses a number of answers to show that is none, before anything is asked", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    for (const show of ["many", ""]) {
      const refused = await call(folder, "run", ...plain, `--show=${show}`);
      expect(refused.exitCode).toBe(64);
      expect(refused.stderr).toContain("error USAGE");
      expect(refused.stderr).toContain(`--show must be a number of rows, not "${show}"`);
    }
    expect(existsSync(join(folder, "out"))).toBe(false);
  });

  it("refuses to replace a run and to leave it, both at once", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const both = await call(folder, "run", ...plain, "--overwrite", "--fork");
    expect([both.exitCode, both.stderr]).toEqual([64, expect.stringContaining("--fork leaves it")]);
    expect(existsSync(join(folder, "out"))).toBe(false);
  });

  it("writes nothing but JSON lines to stderr with --json", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    for (const last of ["run-seal", "log"]) {
      const { stderr } = await call(folder, "run", ...plain, "--json");
      const events = stderr.trimEnd().split("\n");
      expect(JSON.parse(events.at(-1)!)).toMatchObject({ type: last });
    }
  });

  it("plans nothing where an engine would have to be fetched and must not", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const llama = ["--input", "rows.jsonl", "--prompt", "x", "--output", "out", "--no-install"];
    const model = ["--model", "smollm2-135m-instruct"];
    const refused = await call(folder, "run", ...llama, ...model);
    expect([refused.exitCode, refused.stderr]).toEqual([
      69,
      expect.stringContaining("error ENGINE_MISSING"),
    ]);
    const fake = await call(folder, "run", ...llama, "--model", "fake");
    expect(fake.exitCode).toBe(0);
  });
});
