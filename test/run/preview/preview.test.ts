import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { openEngine } from "../../../src/engines/registry.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { Coordinator } from "../../../src/run/coordinate/coordinator.ts";
import { type JobInput, jobSchema } from "../../../src/run/job/schema.ts";
import { openOrPlan } from "../../../src/run/plan/open-run.ts";
import { previewJob } from "../../../src/run/preview/preview.ts";
import { carriedOut, preparedRun, scratchFolder, type WholeRun } from "../whole-run.ts";

const preview = ({ job, dependencies }: WholeRun, changes: Partial<JobInput> = {}, shownRows = 2) =>
  previewJob(jobSchema.parse({ ...job, ...changes }), dependencies, {
    shownRows,
    backend: { workersFor: async () => ({ workers: 3, notices: ["a notice"] }) },
    onEvent() {},
  });

const rowsOf = (count: number, row: (index: number) => unknown) =>
  Array.from({ length: count }, (_, index) => `${JSON.stringify(row(index))}\n`).join("");

describe("previewJob", () => {
  it("counts what would be asked, and writes nothing", async () => {
    const run = preparedRun(scratchFolder());
    const found = await preview(run);
    expect(found).toMatchObject({
      input: { files: 1, rows: 23, rowsPerTask: 5 },
      rows: 23,
      tasks: 5,
      requests: { planned: 23, estimated: 23, low: 23, high: 23 },
      sampledRows: 23,
      workers: 3,
      seed: 1,
      notices: ["a notice"],
      standing: null,
    });
    expect(readdirSync(run.folder)).toEqual(["rows.jsonl"]);
  });

  it("shows what the first rows will be asked, or why they will fail", async () => {
    const rows = `{"list": ["Bake 5 min.", "Mix."], "text": "a"}\n{broken\n{"text": "b"}\n`;
    const run = preparedRun(scratchFolder(), rows);
    const prompts: JobInput["prompts"] = {
      each: {
        system: "Be brief.",
        prompt: "When? {{ item }}",
        forEach: "list",
        answer: { line: "time={time}", slots: { time: { maxWords: 2 } } },
      },
      whole: { prompt: "All of {{ text }}:", api: "completion" },
    };
    const { shown } = await preview(run, { prompt: undefined, prompts }, 3);
    expect(shown[0]!.requests).toMatchObject([
      {
        promptName: "each",
        element: 0,
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "When? Bake 5 min." },
        ],
        slottedLine: { line: "time={time}", slots: [{ source: "Bake 5 min.", maxWords: 2 }] },
      },
      { promptName: "each", element: 1 },
      { promptName: "whole", prompt: "All of a:" },
    ]);
    expect(shown[1]).toMatchObject({ line: 2, requests: [] });
    expect(shown[1]!.error).toContain("not valid JSON");
    expect(shown[2]!.error).toContain("field list");
  });

  it("warns of what rows lack, once a field, with the first place", async () => {
    const run = preparedRun(scratchFolder());
    const { warnings } = await preview(run);
    const file = join(run.folder, "rows.jsonl");
    expect(warnings).toMatchObject([
      { code: "JSON_INVALID", rows: 1, first: { file, line: 5 } },
      { code: "VARIABLE_MISSING", field: "text", rows: 3, first: { file, line: 7 } },
    ]);
  });

  it("estimates tokens from characters, and requests of lists from a sample", async () => {
    const rows = rowsOf(1000, (index) => ({ list: index % 2 ? ["x", "x"] : ["x", "x", "x", "x"] }));
    const run = preparedRun(scratchFolder(), rows);
    const prompt = { prompt: "1234567{{ item }}", forEach: "list" };
    const generation = { maxNewTokens: 10, seed: 1 };
    const found = await preview(run, { prompt, generation });
    expect(found.sampledRows).toBeLessThanOrEqual(200);
    expect(found).toMatchObject({ requests: { planned: null }, seed: 1 });
    // Tasks begin with rows of four, so that a sample has a few more of them.
    const { estimated } = found.requests;
    expect(estimated).toBeGreaterThanOrEqual(3000);
    expect(estimated).toBeLessThan(3300);
    expect(found.tokens).toMatchObject({
      prompt: { estimated: estimated * 2 },
      completion: { estimated: estimated * 10 },
      charactersPerToken: 4,
    });
  });

  it("looks only at the rows of a sample or a limit", async () => {
    const run = preparedRun(
      scratchFolder(),
      rowsOf(100, (text) => ({ text })),
    );
    const sampled = await preview(run, { sample: 4 }, 4);
    expect(sampled).toMatchObject({ rows: 4, input: { rows: 100 }, sampledRows: 4 });
    expect(sampled.shown).toHaveLength(4);
    expect(await preview(run, { limit: 7 })).toMatchObject({ rows: 7, tasks: 2 });
  });

  it("has one digest for the same question, and another for another", async () => {
    const folder = scratchFolder();
    const run = preparedRun(folder);
    const { digest } = await preview(run);
    expect((await preview(run, { workers: { max: 7 } })).digest).toBe(digest);
    expect((await preview(run, { prompt: "Else {{ text }}" })).digest).not.toBe(digest);
    writeFileSync(join(folder, "rows.jsonl"), '{"text":"other"}\n');
    expect((await preview(run)).digest).not.toBe(digest);
  });

  it.each(["out/{stem}.json", "out/{index}.json"])("says that %s is taken", async (pattern) => {
    const run = preparedRun(scratchFolder());
    const path = join(run.folder, pattern);
    expect((await preview(run, { output: { path } })).notices).toEqual(["a notice"]);
    const file = path.replace("{stem}", "rows").replace("{index}", "7");
    mkdirSync(dirname(file));
    writeFileSync(file, "{}");
    const { notices } = await preview(run, { output: { path } });
    expect(notices.at(-1)).toMatch(`sluice run would stop`);
    expect(notices.at(-1)).toContain(file);
  });

  it("says that a run of another job that answered nothing will be replaced", async () => {
    const run = preparedRun(scratchFolder());
    const { job, dependencies } = run;
    const options = { overwrite: false, fork: false, workersFor: () => 1, onEvent() {} };
    const { context } = await openOrPlan(job, dependencies, options);
    const { clock, processes } = dependencies;
    const { storage } = context;
    const coordinator = await Coordinator.lead({ storage, clock, processes, id: "first", job });
    await coordinator.end();
    const { notices } = await preview(run, { prompt: "Else {{ text }}" });
    expect(notices.join()).toContain("it answered nothing, and sluice run replaces it");
  });

  it("says what the output holds", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const same = await preview(run);
    expect(same.standing).toMatchObject({ committedTasks: 5, tasks: 5, differsIn: [] });
    expect(same.notices.join()).toContain("this job, which is finished");
    const other = await preview(run, { prompt: "Else {{ text }}" });
    expect(other.standing?.differsIn).toEqual(["prompt.prompt"]);
    expect(other.notices.join()).toContain("run it with --fork or --overwrite");
    const occupied = join(run.folder, "docs");
    mkdirSync(occupied);
    writeFileSync(join(occupied, "letter.txt"), "");
    const { notices } = await preview(run, { output: { path: occupied } });
    expect(notices.at(-1)).toContain("it holds letter.txt");
    expect(existsSync(join(occupied, "_sluice"))).toBe(false);
  });

  it("fails as the run would, before anything is asked", async () => {
    const run = preparedRun(scratchFolder());
    await expect(preview(run, { prompt: "{{ text" })).rejects.toMatchObject({
      code: "TEMPLATE_INVALID",
    });
    const input = { path: join(run.folder, "nothing.jsonl") };
    await expect(preview(run, { input })).rejects.toMatchObject({ code: "INPUT_MISSING" });
  });
});

describe("previewJob with a measurement", () => {
  const prices = { promptUsdPerMillion: 1000, completionUsdPerMillion: 10_000 };
  // Answers of one to six words, by chance under the seed, and prompts of up to 30 words.
  const random = seededRandom(12);
  const rows = rowsOf(400, (id) => ({
    id,
    text: "word ".repeat(1 + Math.floor(random.next() * 30)).trim(),
  }));
  const model = { engine: "fake", latencyMs: { min: 2, max: 10 }, capacity: 8 } as const;

  const measured = (run: WholeRun, count: number) =>
    previewJob(run.job, run.dependencies, {
      shownRows: 0,
      backend: { workersFor: async () => ({ workers: 1, notices: [] }) },
      onEvent() {},
      measure: {
        rows: count,
        openEngine: ({ model: options }) =>
          openEngine(options, {
            ...run.dependencies,
            environment: {},
            homeDirectory: "/nowhere",
            hostCommand: [],
            killProcess() {},
          }),
        signal: new AbortController().signal,
      },
    });

  it("holds what the run then costs within its bounds, and writes nothing", async () => {
    const run = preparedRun(scratchFolder(), rows, { model, prices, shard: { rows: 40 } });
    const { tokens, usd, seconds, basis, measuredRows } = await measured(run, 60);
    expect(readdirSync(run.folder)).toEqual(["rows.jsonl"]);
    expect([basis, measuredRows]).toEqual(["measured", 60]);
    const { summary } = await carriedOut(run);
    const within = (value: number, bounds: { low: number; high: number }) =>
      bounds.low <= value && value <= bounds.high;
    expect(within(summary.prompt_tokens, tokens.prompt)).toBe(true);
    expect(within(summary.total_tokens_generated, tokens.completion)).toBe(true);
    expect(within(summary.usd!, usd!)).toBe(true);
    expect(tokens.completion.high).toBeLessThan(tokens.completion.low * 2);
    expect(seconds!.high).toBeGreaterThan(seconds!.low);
  });

  it("is not needed where the output holds a part of the run", async () => {
    const budget = { tokens: 1500 };
    const changes = { model, prices, shard: { rows: 40 }, budget };
    const run = preparedRun(scratchFolder(), rows, changes);
    const stopped = await carriedOut(run);
    expect(stopped.error?.code).toBe("BUDGET_SPENT");
    const found = await preview(run, {}, 0);
    expect(found).toMatchObject({ basis: "run", standing: { differsIn: [] } });
    expect(found.standing!.spent!.tokens).toBeGreaterThanOrEqual(1500);
    expect(found.measuredRows).toBe(stopped.summary.rows.answered);
    const other = await preview(run, { prompt: "Else {{ text }}" }, 0);
    expect(other).toMatchObject({ basis: "characters", standing: { spent: null } });
    const whole = await carriedOut({ ...run, job: { ...run.job, budget: undefined } });
    const { low, high } = found.tokens.completion;
    expect(whole.summary.total_tokens_generated).toBeGreaterThanOrEqual(low);
    expect(whole.summary.total_tokens_generated).toBeLessThanOrEqual(high);
  });
});
