import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type JobInput,
  plan,
  type RunEvent,
  results,
  run,
  status,
  verify,
} from "../../src/index.ts";

const rows = Array.from({ length: 25 }, (_, index) => ({ id: index, text: `row ${index}` }));

describe("run, for programs", () => {
  let folder: string;
  let job: JobInput;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-api-"));
    await writeFile(join(folder, "rows.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
    job = {
      input: "rows.jsonl",
      shard: { rows: 10 },
      model: { engine: "fake" },
      prompt: "Say {{ text }}",
      output: { path: "out", field: "said" },
      generation: { seed: 1 },
    };
  });

  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("runs a job with worker processes, and its run can be looked at", async () => {
    const events: RunEvent[] = [];
    const onEvent = (event: RunEvent) => void events.push(event);
    const { summary, exitCode } = await run(job, { workingDirectory: folder, onEvent });
    expect(exitCode).toBe(0);
    expect(summary).toMatchObject({ status: "SUCCESS", sealed: true, output: join(folder, "out") });
    expect(summary.rows).toMatchObject({ total: 25, answered: 25, failed: 0 });
    const worker = events.find((event) => event.type === "worker-start");
    expect(worker?.pid).toBeGreaterThan(0);
    expect(worker?.pid).not.toBe(process.pid);

    const found: unknown[] = [];
    for await (const row of results(join(folder, "out"))) found.push(row);
    expect(found).toEqual(rows.map((row) => ({ ...row, said: expect.any(String) })));
    expect((await verify(join(folder, "out"))).damages).toEqual([]);
    const { run: seen, tasks } = await status(join(folder, "out"));
    expect(seen).toMatchObject({ state: "successful", runId: summary.run_id });
    expect(tasks.map((task) => task.state)).toEqual(Array(3).fill("successful"));
  });

  it("says before what a job would do, and writes nothing", async () => {
    const { rows: found, tasks, requests, shown } = await plan(job, { workingDirectory: folder });
    expect({ found, tasks }).toEqual({ found: 25, tasks: 3 });
    expect(requests.planned).toBe(25);
    expect(shown[1]?.requests[0]?.messages).toEqual([{ role: "user", content: "Say row 1" }]);
    expect(await readdir(folder)).toEqual(["rows.jsonl"]);
  });

  it("leaves a sealed run alone, and refuses another job in its place", async () => {
    const first = await run(job, { workingDirectory: folder });
    const again = await run(job, { workingDirectory: folder });
    expect(again).toMatchObject({ wasSealed: true, exitCode: 0 });
    expect(again.summary.run_id).toBe(first.summary.run_id);
    const other = { ...job, prompt: "Sing {{ text }}" };
    await expect(run(other, { workingDirectory: folder })).rejects.toMatchObject({
      code: "RUN_DIFFERS",
    });
  });

  it("refuses to replace a run and to leave it, both at once", async () => {
    const both = run(job, { workingDirectory: folder, overwrite: true, fork: true });
    await expect(both).rejects.toMatchObject({
      ...{ code: "USAGE", message: expect.stringContaining("fork: true leaves it") },
    });
  });

  it("goes on where a stopped run left off", async () => {
    const stop = new AbortController();
    const slow: JobInput = { ...job, model: { engine: "fake", latencyMs: 20, capacity: 1 } };
    const onEvent = (event: RunEvent) => {
      if (event.type === "task-end" && event.outcome === "committed") stop.abort();
    };
    const options = { workingDirectory: folder, onEvent, signal: stop.signal };
    const stopped = await run(slow, options);
    expect(stopped.error?.code).toBe("RUN_CANCELED");
    expect(stopped.summary).toMatchObject({ status: "CANCELED", sealed: false });
    const ended = await run(job, { workingDirectory: folder });
    expect(ended.summary.rows).toMatchObject({ total: 25, answered: 25 });
    expect(ended.summary.rows.resumed).toBeGreaterThanOrEqual(10);
  });

  it("stops the run and throws what its function for events throws", async () => {
    const own = new Error("of my own function");
    const onEvent = (event: RunEvent) => {
      if (event.type === "task-end") throw own;
    };
    await expect(run(job, { workingDirectory: folder, onEvent })).rejects.toBe(own);
    const { summary } = await run(job, { workingDirectory: folder });
    expect(summary.rows).toMatchObject({ total: 25, answered: 25 });
    expect(summary.rows.resumed).toBeGreaterThanOrEqual(10);
  });

  it("stops the run and throws what its async function for events rejects with", async () => {
    const own = new Error("of my own async function");
    const onEvent = async (event: RunEvent) => {
      if (event.type === "task-start") throw own;
    };
    const slow: JobInput = { ...job, model: { engine: "fake", latencyMs: 20, capacity: 1 } };
    await expect(run(slow, { workingDirectory: folder, onEvent })).rejects.toBe(own);
    const { summary } = await run(job, { workingDirectory: folder });
    expect(summary.rows).toMatchObject({ total: 25, answered: 25 });
  });

  it("reads a job file by its path", async () => {
    const { input: _input, ...rest } = job;
    await writeFile(join(folder, "job.json"), JSON.stringify({ ...rest, input: "rows.jsonl" }));
    const { summary } = await run("job.json", { workingDirectory: folder, environment: {} });
    expect(summary.rows.answered).toBe(25);
    const part = await readFile(join(folder, "out/part-00000.jsonl"), "utf8");
    expect(part.split("\n").length - 1).toBe(10);
  });

  it("counts the tokens of answers that cannot be used, as their server does", async () => {
    let sent = 0;
    const usage = { prompt_tokens: 9, completion_tokens: 4 };
    const server = createServer((request, response) => {
      const content = sent % 3 === 0 ? null : "fine";
      if (request.method === "POST") sent++;
      const choices = [{ message: { content }, finish_reason: "length" }];
      response.end(JSON.stringify({ choices, usage }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const baseUrl = `http://127.0.0.1:${port}/v1`;
    const model: JobInput["model"] = { engine: "openai", name: "m", baseUrl };
    const { summary } = await run({ ...job, model }, { workingDirectory: folder });
    server.close();
    expect(sent).toBeGreaterThan(25);
    expect([summary.prompt_tokens, summary.total_tokens_generated]).toEqual([9 * sent, 4 * sent]);
    const { usage: counted } = (await status(join(folder, "out"))).run;
    expect(counted).toMatchObject({ promptTokens: 9 * sent, completionTokens: 4 * sent });
  });

  it("keeps the hint of a failed row, where it is more than that of its code", async () => {
    await writeFile(
      join(folder, "predict.mjs"),
      `import { SluiceError } from ${JSON.stringify(join(import.meta.dirname, "../../src/index.ts"))};
       export const predict = (batch) => batch.map(({ row }) =>
         row.id === 3 ? new SluiceError("PREDICTION_FAILED", "too odd", { hint: "make it even" })
           : row.id === 4 ? new Error("plain") : "fine");`,
    );
    const model: JobInput["model"] = { engine: "predictor", module: "./predict.mjs" };
    const events: RunEvent[] = [];
    const onEvent = (event: RunEvent) => void events.push(event);
    const options = { workingDirectory: folder, onEvent };
    const { summary } = await run({ ...job, prompt: undefined, model }, options);
    expect(summary.errors).toEqual({ PREDICTION_FAILED: 2 });
    expect(summary.error_hints).toEqual({ PREDICTION_FAILED: "make it even" });
    const told = events.filter(({ type }) => type === "row-error");
    expect(told).toMatchObject([{ hint: "make it even" }]);
    const letters = await Array.fromAsync(results(join(folder, "out"), { failed: true }));
    expect(letters.map(({ hint }) => hint)).toEqual(["make it even", undefined]);
    expect((await verify(join(folder, "out"))).damages).toEqual([]);
  });

  it("leaves no folder where the input or the prompt is refused", async () => {
    const missing = run({ ...job, input: "rows.txt" }, { workingDirectory: folder });
    await expect(missing).rejects.toMatchObject({ code: "INPUT_MISSING" });
    const unfit = run({ ...job, prompt: "{{ texxt }}" }, { workingDirectory: folder });
    await expect(unfit).rejects.toMatchObject({ code: "PROMPT_UNFIT" });
    expect((await readdir(folder)).filter((name) => name === "out")).toEqual([]);
  });

  it("leaves nothing behind where engine or model cannot be had", async () => {
    const wrong: JobInput = { ...job, model: { engine: "llama", name: "smollm" } };
    await expect(run(wrong, { workingDirectory: folder })).rejects.toMatchObject({
      code: "MODEL_UNKNOWN",
    });
    const absent: JobInput = {
      ...job,
      model: { engine: "llama", name: "smollm2-135m-instruct" },
    };
    const environment = { SLUICE_HOME: join(folder, "home") };
    const options = { workingDirectory: folder, environment, install: false };
    await expect(run(absent, options)).rejects.toMatchObject({ code: "ENGINE_MISSING" });
    expect(await readdir(folder)).toEqual(["rows.jsonl"]);
  });

  it("names what is wrong with a job, and refuses standard input", async () => {
    const wrong = { ...job, promt: "x" } as JobInput;
    await expect(run(wrong, { workingDirectory: folder })).rejects.toMatchObject({
      code: "JOB_INVALID",
      message: expect.stringContaining("did you mean prompt"),
    });
    const piped: JobInput = { ...job, input: "-" };
    await expect(run(piped, { workingDirectory: folder })).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
  });
});
