import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../../src/foundation/errors.ts";
import { withJobLine } from "../../../src/run/job/problem.ts";
import { assertAskable } from "../../../src/run/plan/job-prompts.ts";
import { jobFolder } from "./job-folder.ts";

const { load } = jobFolder();

/** What asking a job by this file throws, with its place in the file. */
async function refusal(text: string, sets: string[] = []): Promise<SluiceError> {
  const { job, originOf } = await load(text, { sets });
  try {
    assertAskable(job);
  } catch (error) {
    return withJobLine(error, originOf) as SluiceError;
  }
  throw new Error("the job was taken");
}

const head = "input: rows.jsonl\nmodel: { engine: fake }\n";
const file = "job.yaml";

describe("a fault that shows only when prompts are compiled", () => {
  it.each([
    ["prompt: '{{ text | nothing }}'", 3, "prompt"],
    ["prompts:\n  one: a\n  two: '{{ text'", 5, "prompts.two"],
    ["prompt: a\n\ngeneration:\n  returnFullText: true", 6, "generation.returnFullText"],
    ["prompt: a\ngeneration: { prependBos: true }", 4, "generation.prependBos"],
  ])("%j is told with its line", async (rest, line, field) => {
    const error = await refusal(head + rest);
    expect(error.place).toEqual({ file, line, field });
    expect(error.message).toMatch(new RegExp(`\\(${file}:${line}, field ${field}\\)$`));
  });

  it("has no line where a flag brought it", async () => {
    const error = await refusal(`${head}prompt: a`, ["prompt={{ text | nothing }}"]);
    expect(error).toMatchObject({ code: "TEMPLATE_INVALID", place: { field: "prompt" } });
    expect(error.place.file).toBeUndefined();
  });
});
