import { describe, expect, it } from "vitest";
import {
  greedyParameters,
  type InferenceResponse,
  noUsage,
} from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { promptOptions } from "../../../src/prompt/prompt-options.ts";
import { compilePromptSet } from "../../../src/prompt/prompt-set.ts";

const generation = {
  ...greedyParameters,
  maxNewTokens: 50,
  seed: 1,
};
const stars = { type: "integer", minimum: 1, maximum: 5 };
const setOf = (prompt: unknown, schema?: JsonObject, more: object = {}) =>
  compilePromptSet({
    generation: { ...generation, ...more },
    prompt: promptOptions.parse(prompt),
    ...(schema === undefined ? {} : { schema }),
  });
const response = (...texts: string[]): InferenceResponse => ({
  answers: texts.map((text) => ({ text, finishReason: "stop", tokens: 1 })),
  usage: noUsage,
  seconds: 0,
});

describe("prompts whose answers have a schema", () => {
  it("give the JSON as the row's answer, of several answers a list", () => {
    const set = setOf("Rate {{ text }}", stars);
    const [request] = set.requests({ text: "it" }, 0);
    expect(request!.structure!.schema).toEqual(stars);
    const accepted = set.accept(request!, response("4"));
    expect(set.answer([request!], [accepted])).toBe(4);
    const both = set.accept(request!, response("4", " 5\n"));
    expect(set.answer([request!], [both])).toEqual([4, 5]);
    expect(both.answers[0]).not.toHaveProperty("spans");
  });

  it("share one structure, as long as nothing copies from the row", () => {
    const set = setOf({ prompt: "Rate {{ item }}", forEach: "[1, 2]", schema: stars });
    const [one, two] = set.requests({}, 0);
    expect(one!.structure).toBe(two!.structure);
    const responses = [set.accept(one!, response("4")), undefined];
    expect(set.partialAnswer([one!, two!], responses)).toEqual([4, null]);
  });

  it("copy from the element of a list, and know where in the list they are", () => {
    const schema = { type: "string", copyFrom: "item ~ loop.index", maxWords: 2 };
    const set = setOf({ prompt: "{{ item }}", forEach: "steps", schema });
    const requests = set.requests({ steps: ["mix ", "bake "] }, 0);
    const sources = requests.map(({ structure }) => structure!.copies![0]!.source);
    expect(sources).toEqual(["mix 1", "bake 2"]);
  });

  it("ask again for the JSON, with what was wrong", () => {
    const set = setOf("Rate {{ text }}", stars);
    const [request] = set.requests({ text: "it" }, 0);
    const again = set.reask(request!, "6", "the answer must be …");
    expect(again.structure).toBe(request!.structure);
    expect(again.messages!.slice(1)).toEqual([
      { role: "assistant", content: "6" },
      {
        role: "user",
        content:
          "That is not right: the answer must be …\nAnswer again, with the corrected JSON only.",
      },
    ]);
  });

  const form = { line: "a={a}", slots: { a: { copyFrom: "text" } } };
  it.each<[string, () => unknown, string, string]>([
    [
      "a fault in the job's own schema",
      () => setOf("x", { type: "integr" }),
      "schema.type",
      '"integr" is none of string, number, integer',
    ],
    [
      "a fault in that of a prompt",
      () => setOf({ prompt: "x", schema: { type: "integr" } }),
      "prompt.schema.type",
      '"integr" is none of',
    ],
    [
      "a schema beside a line",
      () => setOf({ prompt: "x", answer: form }, stars),
      "schema",
      "give answer or schema, not both",
    ],
    [
      "the whole text beside a schema",
      () => setOf({ prompt: "x", api: "completion" }, stars, { returnFullText: true }),
      "generation.returnFullText",
      "prompt has answer or schema, which give no text",
    ],
  ])("refuse %s, naming the key", (_name, compile, field, message) => {
    expect(compile).toThrow(
      expect.objectContaining({
        code: "JOB_INVALID",
        place: expect.objectContaining({ field }),
        message: expect.stringContaining(message),
      }),
    );
  });
});
