import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { wholePattern } from "../../src/foundation/spans.ts";
import { loadJob } from "../../src/run/job/load.ts";
import { isLong } from "../long.ts";
import { root } from "../meta/source-tree.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { findLlamaFiles } from "./llama-files.ts";
import {
  expectForms,
  jobFile,
  recipes,
  runExample,
  sentencesOf,
  writeSummaryJob,
} from "./recipe-runs.ts";

const inputs = mkdtempSync(join(tmpdir(), "sluice-recipes-"));
afterAll(() => rmSync(inputs, { recursive: true, force: true }));

// A recipe that a model answers soon: those of the example have several sentences.
writeFileSync(
  join(inputs, "recipes.jsonl"),
  '{"id":"r0","directions":["Bake at 350 degrees F."]}\n',
);

describe("the recipes' patterns", async () => {
  const { job } = await loadJob({ file: jobFile, environment: {}, workingDirectory: root });
  const steps = job.prompts!.steps!;
  const patternOf = (slot: string) => wholePattern(steps.answer!.slots[slot]!.pattern!);

  it.each([
    ["375 degrees F (190 degrees C)", "350°F", "350 °F (175 °C)", "180º C", "70 ˚C", "350 degrees"],
    ["350°F/180°C", "110 to 115 degrees F (43 to 46 degrees C)", "325–350°F", "350-375 degrees F"],
    ["180°C (gas mark 4)", "gas mark 6", "450F", "400 degrees Fahrenheit", "350°F or 180°C"],
    ["medium heat", "High heat", "medium-high heat", "medium high heat", "moderately low heat"],
    ["heat to low", "heat to medium-high", "medium-low", "medium to medium-high heat"],
  ])("take as a temperature: %s, %s, …", (...texts) => {
    expect(texts.filter((text) => !patternOf("temperature").test(text))).toEqual([]);
  });

  it.each([
    ["5 minutes", "18 min.", "25 to 30 minutes", "25-30 minutes", "25–30 minutes", "10 - 12 min"],
    ["1 1/2 hours", "1/2 hour", "½ hour", "1½ hours", "1 ½ hours", "2.5 hours", "1-1/2 hours"],
    ["1 hour and 15 minutes", "1 hour 15 minutes", "30 seconds to 1 minute", "30 more minutes"],
    ["overnight", "6 hours or overnight", "8 to 12 hours, or overnight", "2 to 3 days", "a week"],
    ["an hour", "half an hour", "a few seconds", "several hours", "seven hours", "one or two hrs"],
  ])("take as a duration: %s, %s, …", (...texts) => {
    expect(texts.filter((text) => !patternOf("duration").test(text))).toEqual([]);
  });

  it("take nothing else", () => {
    const others = ["medium", "high", "medium bowl", "high speed", "the heat", "9 inches", "2 c"];
    const numbers = ["350", "5", "5 cups", "1/2 cup", "minutes", "for 10 minutes", "10 minutes or"];
    for (const text of [...others, ...numbers, "350°F for", "about 5 minutes", "day-old bread"]) {
      expect(patternOf("temperature").test(text), text).toBe(false);
      expect(patternOf("duration").test(text), text).toBe(false);
    }
    expect(patternOf("temperature").test("5 minutes")).toBe(false);
    expect(patternOf("duration").test("350 degrees F")).toBe(false);
  });
});

describe("the recipes example", () => {
  it("answers every recipe in order, in three forms", async () => {
    const { summary, results } = await runExample(scratchFolder(), "fake", ["--model", "fake"]);
    expect(recipes).toHaveLength(30);
    const sentences = recipes.reduce((sum, recipe) => sum + sentencesOf(recipe).length, 0);
    const requests = sentences * 3;
    expect(summary).toMatchObject({
      status: "SUCCESS",
      request_count: requests,
      response_count: requests,
      rows: { total: 30, answered: 30, failed: 0 },
    });
    expect(results.map(({ id }) => id)).toEqual(recipes.map(({ id }) => id));
    for (const [at, recipe] of recipes.entries()) expectForms(results, recipe, at);
    expect(results.some(({ directions }) => directions.length === 0)).toBe(true);
  });

  /** In `npm run test:long` with a model, too: its prompts are prepared in the same way. */
  const ofModel = () =>
    ["the embedded model", writeSummaryJob(inputs), ["--model.threads", "1"]] as const;
  it.for([
    ["the fake engine", jobFile, ["--model", "fake"]] as const,
    ...(isLong ? [ofModel()] : []),
  ])(
    "finds its prompts prepared by a run before, and answers alike: %s",
    async ([, file, options], context) => {
      const isFake = file === jobFile;
      const missing = isFake ? undefined : (await findLlamaFiles()).missing;
      context.skip(missing !== undefined, missing);
      const folder = scratchFolder();
      const run = (called: string, ...more: string[]) =>
        runExample(folder, called, [...options, ...more], file);
      const prepared = ["--preparedDir", join(folder, "prepared")];
      const made = await run("made", ...prepared);
      const found = await run("found", ...prepared);
      expect(made.summary.prepared).toEqual({ hits: 0, misses: made.results.length });
      expect(found.summary.prepared).toEqual({ hits: made.results.length, misses: 0 });
      expect(found.results).toEqual(made.results);
      // That the model has the same tokens either way is tested where it makes them.
      if (isFake) expect((await run("plain")).results).toEqual(made.results);
    },
  );
});
