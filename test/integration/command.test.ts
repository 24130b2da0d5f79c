import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isRunning, pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { scriptedProgram } from "../engines/command/command-engine.ts";
import { pythonMissing } from "../engines/command/python.ts";
import { root } from "../meta/source-tree.ts";
import { jsonLinesIn } from "./json-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-command-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Result = { id: number; text: string; answer: unknown };

/** A folder with a job over these texts, whose model is the scripted program. */
function jobFolder(name: string, texts: readonly string[], args: string, model: object): string {
  const directory = join(folder, name);
  mkdirSync(directory);
  const rows = texts.map((text, id) => JSON.stringify({ id, text }));
  writeFileSync(join(directory, "rows.jsonl"), `${rows.join("\n")}\n`);
  const job = {
    input: "rows.jsonl",
    shard: { rows: 1000 },
    model: {
      ...{ engine: "command", command: process.execPath },
      ...{ args: [scriptedProgram, ...args.split(" ")], ...model },
    },
    prompt: "{{ text }}",
    output: "out",
    workers: { max: 1 },
  };
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  return directory;
}

describe("a run whose model is a program", () => {
  it("gives up the rows that break it, and answers all others once", async () => {
    const bad: Record<number, [word: string, code: string]> = {
      20: ["THROW", "PREDICTION_FAILED"],
      45: ["EXIT", "ROW_KILLS_ENGINE"],
      71: ["REFUSE", "PREDICTION_FAILED"],
      90: ["HANG", "ROW_STALLS_WORKER"],
    };
    const texts = Array.from({ length: 120 }, (_, id) => bad[id]?.[0] ?? `word ${id}`);
    const model = { maxBatchRows: 8, timeoutMs: 1500 };
    const directory = jobFolder("bad-rows", texts, "noisy", model);
    const { code, stderr } = await runSluice(["run", "-c", "job.json"], directory);
    expect(code, stderr).toBe(1);
    const answered = jsonLinesIn(join(directory, "out")) as unknown as Result[];
    const expected = texts.flatMap((text, id) => (id in bad ? [] : [[id, text.toUpperCase()]]));
    expect(answered.map(({ id, answer }) => [id, answer])).toEqual(expected);
    const failed = jsonLinesIn(join(directory, "out", "_dead-letters")) as unknown as {
      row: { id: number };
      code: string;
    }[];
    const codes = Object.fromEntries(failed.map(({ row, code: name }) => [row.id, name]));
    expect(codes).toEqual(
      Object.fromEntries(Object.entries(bad).map(([id, [, name]]) => [id, name])),
    );
    expect(stderr).toContain("a line on stdout is not part of the protocol");
  });

  it("refuses all of a batch whose results are not one for each row", async () => {
    const texts = Array.from({ length: 12 }, (_, id) => (id === 5 ? "FEW" : `word ${id}`));
    const directory = jobFolder("miscounted", texts, "ready", { maxBatchRows: 8 });
    const { code, stderr } = await runSluice(["run", "-c", "job.json"], directory);
    expect(code, stderr).toBe(1);
    const failed = jsonLinesIn(join(directory, "out", "_dead-letters"));
    const refused = failed.map(({ index }) => index as number).sort((a, b) => a - b);
    // Its batch, and no row of another one; which rows were in it hangs on when they came.
    expect(refused).toContain(5);
    expect(refused.length).toBeGreaterThan(1);
    expect(refused.at(-1)! - refused[0]!).toBe(refused.length - 1);
    const { length } = refused;
    const message = `${length - 1} result${length === 2 ? "" : "s"} for a batch of ${length} rows`;
    for (const letter of failed) {
      expect(letter).toMatchObject({ code: "RESULTS_MISCOUNTED" });
      expect(letter.message).toContain(message);
    }
    expect(jsonLinesIn(join(directory, "out"))).toHaveLength(texts.length - length);
  });

  it("survives a kill -9 of its worker, which leaves no program behind", async () => {
    const texts = Array.from({ length: 400 }, (_, id) => `word ${id}`);
    const directory = jobFolder("killed", texts, "told pids", { maxBatchRows: 1 });
    const run = startSluice(["run", "-c", "job.json", "--json"], directory);
    await run.workerStarted;
    while (!existsSync(join(directory, "pids-held")) && !run.hasEnded()) await pause(5);
    process.kill(run.workers[0]!, "SIGKILL");
    writeFileSync(join(directory, "pids-go"), "");
    const { code, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
    const pids = readFileSync(join(directory, "pids"), "utf8").trim().split("\n").map(Number);
    expect(pids).toHaveLength(2);
    expect(pids.map(isRunning)).toEqual([false, false]);
    const answered = jsonLinesIn(join(directory, "out")) as unknown as Result[];
    expect(answered.map(({ answer }) => answer)).toEqual(texts.map((text) => text.toUpperCase()));
  });

  it("is another run once the script is another one", async () => {
    const directory = jobFolder("changed", ["a"], "ready", {});
    const script = join(directory, "program.ts");
    cpSync(scriptedProgram, script);
    const job = JSON.parse(readFileSync(join(directory, "job.json"), "utf8"));
    job.model.args[0] = "program.ts";
    writeFileSync(join(directory, "job.json"), JSON.stringify(job));
    const first = await runSluice(["run", "-c", "job.json"], directory);
    expect(first.code, first.stderr).toBe(0);
    writeFileSync(script, `${readFileSync(script, "utf8")}\n// changed\n`);
    const second = await runSluice(["run", "-c", "job.json"], directory);
    expect(second.code, second.stderr).toBe(64);
    expect(second.stderr).toContain("filesSha256");
  });

  it("stops with what to do where there is no such program", async () => {
    const directory = jobFolder("missing", ["a"], "ready", { command: "no-such-program" });
    const { code, stderr } = await runSluice(["run", "-c", "job.json"], directory);
    expect(code, stderr).toBe(69);
    expect(stderr).toContain("PROGRAM_MISSING");
    expect(stderr).toContain("install it, or give its path in model.command");
  });
});

describe("examples/command", () => {
  it("tells the languages of its texts", async (context) => {
    const missing = pythonMissing();
    context.skip(missing !== undefined, missing);
    const output = join(folder, "languages.jsonl");
    const job = join(root, "examples/command/job.yaml");
    const { code, stderr } = await runSluice(["run", "-c", job, "--output", output], folder);
    expect(code, stderr).toBe(0);
    const lines = readFileSync(output, "utf8").trim().split("\n");
    const found = lines.map((line) => JSON.parse(line).answer.language);
    const languages = ["English", "German", "French", "Italian"];
    expect(found).toEqual([...languages, ...languages]);
  });
});
