import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startFakeServer } from "../../../src/testing/fake-server.ts";
import { preparedRun, scratchFolder } from "../../run/whole-run.ts";
import { call } from "../call.ts";

const rows = '{"text":"a"}\n{"text":"b"}\n';
const plain = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
const mend = ["--set", "model.failures=[]"];
const refuse = "model.failures=[{row: 1, kind: refused}]";

describe("sluice retry", () => {
  it("asks what failed, says where the results are, and then has nothing to do", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    expect((await call(folder, "run", ...plain, "--set", refuse)).exitCode).toBe(1);
    const { stdout, stderr, exitCode } = await call(folder, "retry", "out", ...mend);
    expect(stderr.trimEnd().split("\n").at(-1)).toBe(`results: ${folder}/out`);
    expect(JSON.parse(stdout)).toMatchObject({ rows: { answered: 2, failed: 0 } });
    expect(exitCode).toBe(0);
    const again = await call(folder, "retry", "out");
    expect(again).toEqual({
      stdout: "",
      stderr: "no row of this run failed, there is nothing to do: out\n",
      exitCode: 0,
    });
    const inJson = await call(folder, "retry", "out", "--json");
    expect(JSON.parse(inJson.stdout)).toMatchObject({
      ...{ sealed: true, output: join(folder, "out"), rows: { answered: 2, failed: 0 } },
    });
    const dropped = await call(folder, "retry", "out", "--abandon", "--json");
    expect(JSON.parse(dropped.stdout)).toEqual({ dropped: null });
  });

  it("begins none that only goes on with one that is begun", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    await call(folder, "run", ...plain, "--set", refuse);
    const [only, begun] = ["--unfinished", ["--set", "model.failures=[{row: 1, kind: fatal-run}]"]];
    const none = await call(folder, "retry", "out", ...mend, only);
    expect([none.exitCode, none.stderr]).toEqual([
      ...[0, "no retry is unfinished, there is nothing to do: out\n"],
    ]);
    expect((await call(folder, "retry", "out", ...begun)).exitCode).toBe(69);
    const ended = await call(folder, "retry", "out", ...mend, only);
    expect(JSON.parse(ended.stdout)).toMatchObject({ rows: { answered: 2, failed: 0 } });
  });

  it("plans nothing with a model that cannot be had", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    await call(folder, "run", ...plain, "--set", refuse);
    const model = "model={engine: llama, name: smollm}";
    const refused = await call(folder, "retry", "out", "--set", model);
    expect(refused.stderr).toContain("error MODEL_UNKNOWN");
    expect((await call(folder, "retry", "out", ...mend)).exitCode).toBe(0);
  });

  it("refuses a file of corrected rows without a name", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    await call(folder, "run", ...plain, "--set", refuse);
    const { exitCode, stderr } = await call(folder, "retry", "out", "--reread", "");
    expect([exitCode, stderr]).toEqual([64, expect.stringContaining("--reread names no file")]);
  });

  it("takes a job file whose run had another output, limit and tasks by flags", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const job = (failures: string) => {
      const model = `model: {engine: fake, failures: ${failures}}`;
      const lines = ["input: rows.jsonl", 'prompt: "Say {{ text }}"', model, ""];
      writeFileSync(join(folder, "job.yaml"), lines.join("\n"));
    };
    job("[{row: 0, kind: refused}]");
    const flags = ["--limit", "1", "--output", "mine", "--shard.rows", "1"];
    expect((await call(folder, "run", "job.yaml", ...flags)).exitCode).toBe(1);
    job("[]");
    renameSync(join(folder, "mine"), join(folder, "moved"));
    const { stdout, stderr } = await call(folder, "retry", "moved", "-c", "job.yaml");
    expect(stderr).not.toContain("error");
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ output: join(folder, "moved"), rows: { total: 1, answered: 1, failed: 0 } },
    });
  });

  it("takes relative paths of --set from the working directory", async () => {
    const { folder } = preparedRun(scratchFolder(), rows);
    const other = scratchFolder();
    const predictor = (body: string) => `export default { predict: (items) => ${body} };\n`;
    writeFileSync(join(folder, "one.mjs"), predictor('{ throw new Error("no"); }'));
    writeFileSync(join(other, "two.mjs"), predictor('items.map(() => "two")'));
    const first = "model={engine: predictor, module: ./one.mjs}";
    const run = ["--input", "rows.jsonl", "--prompt", "Say {{ text }}", "--set", first];
    expect((await call(folder, "run", ...run)).exitCode).toBe(1);
    const changes = ["--set", "model.module=./two.mjs", "--set", "cache=kept"];
    const retried = await call(other, "retry", join(folder, "out"), ...changes);
    expect(JSON.parse(retried.stdout)).toMatchObject({ rows: { answered: 2, failed: 0 } });
    const plan = readFileSync(join(folder, "out/_sluice/generations/2/plan.json"), "utf8");
    expect(JSON.parse(plan).job).toMatchObject({
      ...{ input: [{ path: join(folder, "rows.jsonl") }], cache: { path: join(other, "kept") } },
      model: { module: join(other, "two.mjs") },
    });
  });

  it("divides the limits of a server among its workers, as the run does", async () => {
    const server = await startFakeServer({ delayMs: 300 });
    onTestFinished(() => server.close());
    const texts = Array.from({ length: 16 }, (_, at) => `{"text":"row ${at}"}\n`);
    const { folder } = preparedRun(scratchFolder(), `{"words":"one"}\n${texts.join("")}`);
    const model = `model={engine: openai, name: m, baseUrl: '${server.baseUrl}', maxInFlight: 4}`;
    const settings = ["--set", model, "--set", "workers.max=2", "--set", "shard.rows=9"];
    const words = ["--input", "rows.jsonl", "--prompt", "Say {{ words }}"];
    expect((await call(folder, "run", ...words, ...settings)).exitCode).toBe(1);
    const { stdout } = await call(folder, "retry", "out", "--set", "prompt=Say {{ text }}");
    expect(JSON.parse(stdout)).toMatchObject({ rows: { answered: 17, failed: 0 } });
    expect(server.mostHeld).toBeLessThanOrEqual(4);
  });
});
