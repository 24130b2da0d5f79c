import { expect, it } from "vitest";
import { scratchFolder } from "../run/whole-run.ts";
import { findLlamaFiles } from "./llama-files.ts";
import { expectForms, recipes, runExample, sentencesOf } from "./recipe-runs.ts";

/** Recipes that the embedded model answers: up to 3. */
const answered = Number(process.env.TEST_SLUICE_RECIPES ?? 1);

it("gets the first recipes right with the embedded model", async (context) => {
  const files = await findLlamaFiles();
  context.skip(files.missing !== undefined, files.missing);
  const { results } = await runExample(scratchFolder(), "llama", ["--limit", String(answered)]);
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
