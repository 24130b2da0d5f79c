import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { parse } from "yaml";
import type { JsonObject } from "../../src/foundation/json.ts";
import { splitSentences } from "../../src/prompt/sentences.ts";
import { root } from "../meta/source-tree.ts";
import { sluiceProgram } from "../sluice-program.ts";
import { engineContext } from "./llama-files.ts";

export const jobFile = join(root, "examples/recipes/job.yaml");

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

export const recipes = recipesOf<Recipe>(join(root, "examples/recipes/recipes.jsonl"));

/** Writes the example's job with one of its three prompts, which a model answers soon. */
export function writeSummaryJob(folder: string): string {
  const job = parse(readFileSync(jobFile, "utf8"));
  const file = join(folder, "summary.json");
  writeFileSync(file, JSON.stringify({ ...job, prompts: { summary: job.prompts.summary } }));
  return file;
}

/** Runs the example's job as a user would; results go to a file of a folder. */
export async function runExample(
  folder: string,
  name: string,
  options: readonly string[],
  file: string = jobFile,
) {
  const output = join(folder, `${name}.jsonl`);
  const program = [sluiceProgram, "run", "-c", file, "--output", output];
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

export const sentencesOf = ({ directions }: Recipe) =>
  directions.flatMap((text) => [...splitSentences(text)]);

/** Each answer belongs to its sentence, and the three forms say the same where they must. */
export function expectForms(results: readonly Result[], recipe: Recipe, at: number): void {
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
