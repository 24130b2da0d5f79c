import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { wholePattern } from "../../src/foundation/spans.ts";
import { splitSentences } from "../../src/prompt/sentences.ts";
import { loadJob } from "../../src/run/job/load.ts";
import { root } from "../meta/source-tree.ts";
import { sluiceProgram } from "../sluice-program.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";

const jobFile = join(root, "examples/recipes/job.yaml");
const folder = mkdtempSync(join(tmpdir(), "sluice-recipes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Recipes that the embedded model answers: up to 3. */
const answered = Number(process.env.TEST_SLUICE_RECIPES ?? 1);
/** A recipe that it answers soon: those of the example have several sentences. */
const oneSentence = join(folder, "one-sentence.jsonl");
writeFileSync(oneSentence, '{"id":"r0","directions":["Bake at 350 degrees F."]}\n');

interface Measures {
  text: string;
  temperature: string | null;
  duration: string | null;
}

interface Recipe extends JsonObject {
  id: string;
  directions: string[];
}

type Result = Recipe & {
  quantitativeMeasures: { steps: Measures[]; list: Measures[]; summary: string };
};

const recipesOf = <T>(path: string): T[] =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as T);

const recipes = recipesOf<Recipe>(join(root, "examples/recipes/recipes.jsonl"));

/** Runs the example's job as a user would; results go to a file named `name`. */
async function runExample(name: string, ...options: string[]) {
  const output = join(folder, `${name}.jsonl`);
  const program = [sluiceProgram, "run", "-c", jobFile, "--output", output];
  const env = { ...process.env, SLUICE_HOME: engineContext.homeDirectory };
  const stdout = await new Promise<string>((resolve, reject) => {
    const parameters = [...program, "--no-install", ...options];
    execFile(process.execPath, parameters, { env }, (error, out, said) => {
      if (error) reject(new Error(`${error.message}\n${said}`));
      else resolve(out);
    });
  });
  const summary = JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as JsonObject;
  return { summary, results: recipesOf<Result>(output) };
}

const sentencesOf = ({ directions }: Recipe) =>
  directions.flatMap((text) => [...splitSentences(text)]);

/** Each answer belongs to its sentence, and the three forms say the same where they must. */
function expectForms(results: readonly Result[], recipe: Recipe, at: number): void {
  const { quantitativeMeasures: answers, ...row } = results[at]!;
  const { steps, list, summary } = answers;
  const sentences = sentencesOf(recipe);
  expect(row).toEqual(recipe);
  expect(steps).toHaveLength(sentences.length);
  for (const [place, step] of steps.entries()) {
    const { temperature, duration } = step;
    expect(step.text).toBe(`temperature=${temperature ?? "-"}, duration=${duration ?? "-"}`);
    for (const copied of [temperature, duration]) {
      if (copied !== null) expect(sentences[place]).toContain(copied);
    }
  }
  for (const { temperature, duration, text } of list) {
    expect(temperature ?? duration).not.toBeNull();
    expect(text).not.toMatch(/=-|^$/);
  }
  for (const line of summary.split("\n").filter((line) => line !== "")) {
    const [, number, said] = /^step (\d+): (?:temperature=(?:.+?))?(?:, )?(?:time=(.+))?$/.exec(
      line,
    )!;
    expect(recipe.directions[Number(number) - 1]).toContain(said ?? "");
  }
}

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
    const { summary, results } = await runExample("fake", "--model", "fake");
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

  it.for([
    ["the fake engine", ["--model", "fake"]],
    ["the embedded model", ["--input", oneSentence, "--model.threads", "1"]],
  ] as const)(
    "finds its prompts prepared by a run before, and answers alike: %s",
    async ([name, options], context) => {
      const { missing } = await findLlamaFiles();
      context.skip(name === "the embedded model" && missing !== undefined, missing);
      const prepared = ["--preparedDir", join(folder, `prepared ${name}`)];
      const plain = await runExample(`plain ${name}`, ...options);
      const made = await runExample(`made ${name}`, ...options, ...prepared);
      const found = await runExample(`found ${name}`, ...options, ...prepared);
      const rows = plain.results.length;
      expect(made.summary.prepared).toEqual({ hits: 0, misses: rows });
      expect(found.summary.prepared).toEqual({ hits: rows, misses: 0 });
      for (const { results } of [made, found]) expect(results).toEqual(plain.results);
    },
  );

  it("gets the first recipes right with the embedded model", async (context) => {
    const files = await findLlamaFiles();
    context.skip(files.missing !== undefined, files.missing);
    const { results } = await runExample("llama", "--limit", String(answered));
    for (const at of results.keys()) expectForms(results, recipes[at]!, at);
    const answers = results.flatMap(({ quantitativeMeasures }) => quantitativeMeasures.steps);
    const read = answers.map(({ temperature, duration }) => [temperature, duration]);
    const known: (string | null)[][] = [
      ...[
        ["350 degrees F (175 degrees C)", null],
        [null, null],
        [null, "3 minutes"],
        [null, null],
      ],
      ...[
        [null, "45 to 50 minutes"],
        [null, "10 minutes"],
        ["medium heat", null],
        [null, null],
      ],
      ...[
        [null, null],
        [null, "15 minutes"],
        [null, null],
        [null, "overnight"],
        [null, null],
      ],
    ];
    const right = known.slice(0, recipes.slice(0, answered).flatMap(sentencesOf).length);
    expect(read).toHaveLength(right.length);
    // Which token is likeliest can hang on the processor: one may differ.
    const wrong = read.filter((pair, at) => pair.some((value, slot) => value !== right[at]![slot]));
    expect(wrong.length).toBeLessThanOrEqual(1);
  });
});
