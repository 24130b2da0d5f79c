import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { limits } from "../../src/foundation/limits.ts";
import { type Random, seededRandom } from "../../src/foundation/random.ts";
import type { RunStatus } from "../../src/run/status/status.ts";
import { killQuietly, pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import {
  answerTo,
  type Ending,
  fault,
  type ProviderScript,
  RecordedProvider,
  saidOf,
} from "../recorded-provider.ts";
import { type Served, startServe } from "./served.ts";
import { clientOf, fake } from "./served-batches.ts";

const seed = Number(process.env.TEST_SLUICE_SEED ?? Date.now() % 2 ** 31);
const kills = Number(process.env.TEST_SLUICE_KILLS ?? "2");

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-batches-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** A job with tasks of 50 rows, in a folder of its own. */
function writeJob(folder: string, baseUrl: string, rows: number, more: JsonObject = {}): void {
  const lines = Array.from({ length: rows }, (_, at) => JSON.stringify({ text: `row ${at}` }));
  writeFileSync(join(folder, "in.jsonl"), `${lines.join("\n")}\n`);
  const batch = { pollMs: 100, maxPollMs: 300, maxBatchDelayMs: 1000 };
  const job = {
    input: { path: "in.jsonl" },
    prompt: "Say {{ text }}",
    model: { engine: "openai", name: "m", baseUrl, via: "batch", batch },
    prices: { promptUsdPerMillion: 2, completionUsdPerMillion: 8 },
    ...{ shard: { rows: 50 }, output: { path: "out" }, ...more },
  };
  writeFileSync(join(folder, "job.yaml"), JSON.stringify(job));
}

/** The lines of all files of tasks below a folder, in order. */
function linesOf<T>(folder: string): T[] {
  if (!existsSync(folder)) return [];
  const parts = readdirSync(folder).filter((name) => name.startsWith("part-"));
  const texts = parts.toSorted().map((name) => readFileSync(join(folder, name), "utf8"));
  const lines = texts.join("").split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line) as T);
}

const resultsOf = (folder: string) =>
  linesOf<{ text: string; answer: string }>(join(folder, "out"));

const deadLettersOf = (folder: string) =>
  linesOf<{ code: string; row: { text: string } }>(join(folder, "out/_dead-letters"));

async function statusOf(folder: string): Promise<RunStatus> {
  const { stdout } = await runSluice(["status", "out", "--json"], folder);
  return JSON.parse(stdout) as RunStatus;
}

/** Runs the job, and kills the run, its worker or both at random moments; then to its end. */
async function runUnderKills(folder: string, random: Random) {
  for (let kill = 0; kill < kills; kill++) {
    const run = startSluice(["run", "job.yaml", "--json"], folder);
    await run.workerStarted;
    await pause(random.next() * 3000);
    if (kill % 2 === 0) run.killGroup("SIGKILL");
    else {
      killQuietly(run.workers.at(-1) ?? run.pid, "SIGKILL");
      await pause(random.next() * 2000);
      run.killGroup("SIGKILL");
    }
    await run.ended;
  }
  const last = await runSluice(["run", "job.yaml"], folder);
  expect(last.code, last.stderr).toBe(0);
  return JSON.parse(last.stdout.trim().split("\n").at(-1)!);
}

describe("batches at our own server", () => {
  it("are created once for each task, whoever is killed at whatever moment", async () => {
    console.log(`TEST_SLUICE_SEED=${seed} draws the same moments`);
    const folder = newFolder();
    const server = await startServe(newFolder(), {
      models: fake({ latencyMs: 150, capacity: 8 }),
    });
    const rows = 200;
    writeJob(folder, server.baseUrl, rows);
    const summary = await runUnderKills(folder, seededRandom(seed));
    const batches = (await clientOf(server).batches.list({ limit: 100 })).data;
    const tasks = batches.map(({ metadata }) => Number(metadata!.sluice_task));
    expect(tasks.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
    expect(batches.map(({ status }) => status)).toEqual(batches.map(() => "completed"));
    const sent = batches.reduce((sum, { request_counts }) => sum + request_counts!.total, 0);
    expect(sent).toBe(rows);
    const texts = resultsOf(folder).map(({ text }) => text);
    expect(texts).toEqual(Array.from({ length: rows }, (_, at) => `row ${at}`));
    const input = batches.reduce((sum, { usage }) => sum + usage!.input_tokens, 0);
    const output = batches.reduce((sum, { usage }) => sum + usage!.output_tokens, 0);
    const status = await statusOf(folder);
    const manifest = JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8"));
    const usd = Math.round((input * 2 + output * 8) * 0.5 * 1e3) / 1e9;
    expect(summary).toMatchObject({
      ...{ prompt_tokens: input, total_tokens_generated: output, response_count: rows, usd },
      rows: { total: rows, answered: rows, failed: 0 },
    });
    expect(status.usage).toMatchObject({ promptTokens: input, completionTokens: output });
    expect(status.usd).toBe(usd);
    expect(manifest.bill).toMatchObject({ promptTokens: input, completionTokens: output, usd });
    expect((await runSluice(["verify", "out"], folder)).code).toBe(0);
  });
});

describe("files at our own server", () => {
  const filesAfter = async (server: Served, more: JsonObject) => {
    const folder = newFolder();
    const batch = { pollMs: 100, maxBatchDelayMs: 500, ...more };
    const model = { engine: "openai", name: "m", baseUrl: server.baseUrl, via: "batch", batch };
    writeJob(folder, server.baseUrl, 100, { model, generation: { temperature: 0 } });
    const run = await runSluice(["run", "job.yaml"], folder);
    expect(run.code, run.stderr).toBe(0);
    expect(resultsOf(folder)).toHaveLength(100);
    return (await clientOf(server).files.list()).data.map(({ purpose }) => purpose).toSorted();
  };

  it("are gone once the run has their answers, unless it keeps them", async () => {
    const server = await startServe(newFolder(), { models: fake() });
    expect(await filesAfter(server, {})).toEqual([]);
    const kept = await filesAfter(server, { keepFiles: true });
    expect(kept).toEqual(["batch", "batch", "batch_output", "batch_output"]);
  });
});

async function startProvider(script: ProviderScript): Promise<RecordedProvider> {
  const provider = await new RecordedProvider(script).start();
  onTestFinished(() => provider.stop());
  return provider;
}

/** Faults of every kind, by the number in a request. */
function endingOf(number: number, batch: number): Ending {
  const error = (message: string, code = "") => ({ error: { message, code } });
  const isFirst = batch <= 4;
  if (number % 40 === 1) return { status: 400, body: error("bad value", "invalid_value") };
  if (number % 40 === 2 && isFirst) return { status: 429, body: error("slow down") };
  if (number % 40 === 3 && isFirst) return { status: 500, body: error("oops") };
  if (number % 40 === 4 && isFirst) return "missing";
  if (number % 4 === 3 && batch === 2) return "expired";
  return answerTo(`said ${number}`);
}

describe("batches at a provider with faults", () => {
  it("give every row once, as a result or as a dead letter", async () => {
    const folder = newFolder();
    const faults = ["lost", { status: 500 }, undefined, "cut", undefined, { status: 429 }] as const;
    const provider = await startProvider({
      fault: (call, count) => {
        if (call === "POST /batches") return count === 1 || count === 3 ? "lost" : undefined;
        return call === "GET /models" ? undefined : faults[count % 12];
      },
      states: (number) => ["validating", "in_progress", number === 2 ? "expired" : "completed"],
      errors: (lines, number) => {
        if (number === 3) return [fault("token_limit_exceeded", "Enqueued token limit reached")];
        const at = lines.findIndex((line) => numberOf(saidOf(line)) === 100);
        return at < 0 ? [] : [fault("invalid_value", "Wrong.", at + 1)];
      },
      ending: (line, number) => endingOf(numberOf(saidOf(line)), number),
      hidesOutput: 2,
    });
    writeJob(folder, provider.baseUrl, 200, { maxFailedRows: 10 });
    const { code, stdout, stderr } = await runSluice(["run", "job.yaml"], folder);
    expect(code, stderr).toBe(0);
    const dead = deadLettersOf(folder);
    // Five rows have a value that the provider refuses, and one fails its validation.
    expect(dead.map(({ code }) => code)).toEqual(dead.map(() => "REQUEST_REFUSED"));
    const failed = [1, 41, 81, 100, 121, 161];
    expect(dead.map(({ row }) => numberOf(row.text))).toEqual(failed);
    const results = resultsOf(folder);
    const wanted = Array.from({ length: 200 }, (_, at) => at).filter((at) => !failed.includes(at));
    expect(results.map(({ answer }) => answer)).toEqual(wanted.map((at) => `said ${at}`));
    const summary = JSON.parse(stdout.trim().split("\n").at(-1)!);
    // Each answer counts once: 10 tokens in, 5 out, at half of the price.
    expect(summary).toMatchObject({
      ...{ prompt_tokens: 1940, total_tokens_generated: 970, usd: 0.00582 },
      rows: { total: 200, answered: 194, failed: 6 },
    });
    const keys = provider.batches.map(({ metadata }) => metadata.sluice_batch);
    expect(new Set(keys).size).toBe(keys.length);
    expect((await runSluice(["verify", "out"], folder)).code).toBe(0);
  });

  it("are created once if the run is killed in the middle of any call", async () => {
    const folder = newFolder();
    const calls = ["POST /files", "POST /batches", "GET /batches/ID", "GET /files/ID/content"];
    let killAt: string | undefined;
    let run: ReturnType<typeof startSluice> | undefined;
    const provider = await startProvider({
      fault: (call) => {
        if (call !== killAt) return undefined;
        killAt = undefined;
        run!.killGroup("SIGKILL");
        return "lost";
      },
    });
    writeJob(folder, provider.baseUrl, 150);
    for (const call of calls) {
      killAt = call;
      run = startSluice(["run", "job.yaml", "--json"], folder);
      expect((await run.ended).signal, call).toBe("SIGKILL");
    }
    const { code, stderr } = await runSluice(["run", "job.yaml"], folder);
    expect(code, stderr).toBe(0);
    const tasks = provider.batches.map(({ metadata }) => metadata.sluice_task);
    expect(tasks.toSorted()).toEqual(["0", "1", "2"]);
    expect(resultsOf(folder)).toHaveLength(150);
  });

  it("survive a stop, are found by a joining worker, and end with sluice cancel", async () => {
    const folder = newFolder();
    const provider = await startProvider({ states: () => ["in_progress"] });
    writeJob(folder, provider.baseUrl, 100);
    const run = startSluice(["run", "job.yaml", "--json"], folder);
    await expect
      .poll(() => provider.batches.map(({ status }) => status), { timeout: 30_000 })
      .toEqual(["in_progress", "in_progress"]);
    await expect
      .poll(async () => (await statusOf(folder)).live?.batches, { timeout: 20_000, interval: 500 })
      .toEqual([{ state: "in_progress", batches: 2, requests: 100, done: 50 }]);
    const before = performance.now();
    run.kill("SIGTERM");
    expect((await run.ended).code).toBe(143);
    // Requests of another kind would be waited for that long.
    expect(performance.now() - before).toBeLessThan(limits.stopGraceMs);
    expect(run.stderr()).toContain("batches at the provider are still carried out");
    expect(provider.count("POST /batches/ID/cancel")).toBe(0);
    const [first, second] = provider.batches.toSorted((one, other) =>
      one.metadata.sluice_task! < other.metadata.sluice_task! ? -1 : 1,
    );
    provider.end(first!, "completed");
    const worker = await runSluice(["worker", "out", "--tasks", "0"], folder);
    expect(worker.code, worker.stderr).toBe(0);
    const cancel = await runSluice(["cancel", "out"], folder);
    expect(cancel.stderr).toContain("1 batch cancelled at the provider");
    expect([first!.status, second!.status]).toEqual(["completed", "cancelled"]);
    provider.script = {};
    const { code, stderr } = await runSluice(["run", "job.yaml"], folder);
    expect(code, stderr).toBe(0);
    expect(provider.batches.map(({ lines }) => lines.length)).toEqual([50, 50, 50]);
    expect(resultsOf(folder)).toHaveLength(100);
    expect([...provider.files.values()]).toEqual([]);
  });

  it("leave files that cannot be deleted, which a notice tells", async () => {
    const folder = newFolder();
    const provider = await startProvider({
      fault: (call) => (call === "DELETE /files/ID" ? { status: 403 } : undefined),
    });
    writeJob(folder, provider.baseUrl, 100);
    const { code, stderr } = await runSluice(["run", "job.yaml"], folder);
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/files of batches stay at the provider: .*status 403/);
    expect(resultsOf(folder)).toHaveLength(100);
    expect(provider.files.size).toBe(4);
  });

  it.each([{ isAway: false }, { isAway: true }])(
    "are cancelled if their run is overwritten; the provider is away: $isAway",
    async ({ isAway }) => {
      const folder = newFolder();
      const provider = await startProvider({ states: () => ["in_progress"] });
      writeJob(folder, provider.baseUrl, 100);
      const run = startSluice(["run", "job.yaml", "--json"], folder);
      await expect
        .poll(() => provider.batches.map(({ status }) => status), { timeout: 30_000 })
        .toEqual(["in_progress", "in_progress"]);
      run.killGroup("SIGKILL");
      await run.ended;
      const at = provider.baseUrl;
      if (isAway) await provider.stop();
      // The old run alone says where its batches are.
      writeJob(folder, at, 100, { model: { engine: "fake" } });
      const { code, stderr } = await runSluice(["run", "job.yaml", "--overwrite"], folder);
      expect(code, stderr).toBe(0);
      expect(resultsOf(folder)).toHaveLength(100);
      const statuses = provider.batches.map(({ status }) => status);
      if (isAway) {
        expect(stderr).toContain("batches of the replaced run may still cost money");
        expect(statuses).toEqual(["in_progress", "in_progress"]);
      } else {
        expect(stderr).toContain("2 batches of the replaced run cancelled at the provider");
        expect(statuses).toEqual(["cancelled", "cancelled"]);
      }
    },
  );
});

function numberOf(text: string): number {
  return Number(/\d+/.exec(text)![0]);
}
