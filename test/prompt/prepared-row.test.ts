import { describe, expect, it } from "vitest";
import { greedyParameters } from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { promptOptions } from "../../src/prompt/prompt-options.ts";
import { compilePromptSet } from "../../src/prompt/prompt-set.ts";
import { withRows } from "../../src/prompt/row-prompt-set.ts";

const generation = { ...greedyParameters, maxNewTokens: 8, seed: 1 };
const setOf = (prompts: Record<string, unknown>) =>
  compilePromptSet({
    generation,
    prompts: Object.fromEntries(
      Object.entries(prompts).map(([name, prompt]) => [name, promptOptions.parse(prompt)]),
    ),
  });
const preparedOf = (prompts: Record<string, unknown>, row: JsonObject) => {
  const set = setOf(prompts);
  return set.keeper!.keep(set.requests(row, 3));
};

describe("a row that is kept", () => {
  it("has of words what they have beyond those before them", () => {
    const list = { prompt: "Example. {{ item }}", forEach: "list" };
    const completion = { ...list, api: "completion" };
    const kept = preparedOf({ completion, list }, { list: ["one", "only", ""] });
    expect(kept).toEqual({
      requests: [
        { promptName: "completion", element: 0, prompt: [0, "Example. one"] },
        { promptName: "completion", element: 1, prompt: [11, "ly"] },
        { promptName: "completion", element: 2, prompt: [9, ""] },
        ...[
          [0, "Example. one"],
          [11, "ly"],
          [9, ""],
        ].map((content, element) => ({
          ...{ promptName: "list", element, messages: [{ role: "user", content }] },
        })),
      ],
    });
  });

  it("has of tokens the same", () => {
    const set = setOf({ list: { prompt: "{{ item }}", forEach: "list" } });
    const requests = set.requests({ list: ["a", "b"] }, 3);
    requests[0]!.tokens = [[], [7, 8, 9]];
    requests[1]!.tokens = [[1], [7, 8, 2, 3]];
    const kept = set.keeper!.keep(requests);
    expect(kept.requests[1]!.tokens).toEqual([
      [0, [1]],
      [2, [2, 3]],
    ]);
    expect(set.keeper!.restore(kept, 3, {})).toEqual(requests);
  });

  it("has each text to copy from once, whoever copies from it", () => {
    const list = { prompt: "{{ item }}", forEach: "list" };
    const slots = { a: {}, b: { copyFrom: "other" } };
    const schema = { type: "string", copyFrom: "other" };
    const kept = preparedOf(
      { line: { ...list, answer: { line: "{a}, {b}", slots } }, json: { ...list, schema } },
      { list: ["x", "y"], other: "o" },
    );
    expect(kept.texts).toEqual(["x", "o", "y"]);
    expect(kept.requests.map(({ sources }) => sources)).toEqual([[0, 1], [2, 1], [1], [1]]);
  });

  it("has of a conversation what each turn adds", () => {
    const conversations = ["q1", "a1", "q2", "a2"].map((value) => ({
      ...{ from: value.startsWith("q") ? "human" : "gpt", value },
    }));
    const talk = { type: "sharegpt", turns: "every" };
    const { requests } = preparedOf({ plain: "Say", talk }, { conversations });
    expect(requests.slice(1)).toEqual([
      { promptName: "talk", element: 0, turn: [{ role: "user", content: "q1" }] },
      {
        ...{ promptName: "talk", element: 1, after: 1 },
        turn: [
          { role: "assistant", answerOf: 0 },
          { role: "user", content: "q2" },
        ],
      },
    ]);
  });

  it("has nothing of the row where its requests have that, and gets it back", () => {
    const set = withRows(setOf({ one: "Say {{ text }}" }));
    const row = { text: "hello", other: "UNIQUE" };
    const requests = set.requests(row, 3);
    const kept = set.keeper!.keep(requests);
    expect(JSON.stringify(kept)).not.toContain("UNIQUE");
    expect(set.keeper!.restore(kept, 3, row)).toEqual(requests);
    expect(requests[0]!.row).toBe(row);
  });
});
