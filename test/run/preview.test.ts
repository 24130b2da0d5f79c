import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type JobInput, jobSchema } from "../../src/run/job/schema.ts";
import { previewJob } from "../../src/run/preview.ts";
import { carriedOut, preparedRun, scratchFolder, type WholeRun } from "./whole-run.ts";

const preview = ({ job, dependencies }: WholeRun, changes: Partial<JobInput> = {}, shownRows = 2) =>
  previewJob(jobSchema.parse({ ...job, ...changes }), dependencies, {
    shownRows,
    workersFor: () => ({ workers: 3, notices: ["a notice"] }),
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
      requests: { planned: 23, estimated: 23 },
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
    expect(found.tokens).toEqual({
      prompt: estimated * 2,
      maxCompletion: estimated * 10,
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

  it("says what the output holds", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const same = await preview(run);
    expect(same.standing).toMatchObject({ committedTasks: 5, tasks: 5, differsIn: [] });
    expect(same.notices.join()).toContain("sluice run goes on with it");
    const other = await preview(run, { prompt: "Else {{ text }}" });
    expect(other.standing?.differsIn).toEqual(["prompt.prompt"]);
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
