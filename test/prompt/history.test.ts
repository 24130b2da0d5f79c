import { describe, expect, it } from "vitest";
import { compileExpression } from "../../src/prompt/expression.ts";
import { historyMessages } from "../../src/prompt/history.ts";

const name = "prompt.history";

function messages(turns: unknown, source = "turns") {
  const row = { turns, text: "now" } as never;
  return historyMessages(compileExpression(source, { name }), row, undefined, name).map(
    ({ role, content }) => `${role}: ${content}`,
  );
}

describe("historyMessages", () => {
  it("reads pairs by name, messages by role, and pairs of texts", () => {
    const both = ["user: a", "assistant: b"];
    expect(messages([{ user: "a", bot: "b" }])).toEqual(both);
    expect(messages([{ human: "a", assistant: "b" }])).toEqual(both);
    expect(messages([["a", "b"]])).toEqual(both);
    expect(
      messages([
        { from: "human", value: "a" },
        { from: "gpt", value: "b" },
      ]),
    ).toEqual(both);
    expect(
      messages([
        { role: "user", content: "a" },
        { role: "bot", content: "b" },
      ]),
    ).toEqual(both);
    expect(messages([{ role: "system", content: "s" }])).toEqual(["system: s"]);
    expect(messages([{ user: "a", bot: null }, { bot: 5 }])).toEqual(["user: a", "assistant: 5"]);
    expect(messages([])).toEqual([]);
    expect(messages(null)).toEqual([]);
    expect(messages([{ user: "a", bot: "b" }, { user: "c" }], "turns[-1:]")).toEqual(["user: c"]);
  });

  it.each([
    ["text", "it gives a text, not a list"],
    [["a"], "prompt.history[0]"],
    [[{ user: "a" }, { text: "b" }], "prompt.history[1]"],
    [[{ role: "robot", content: "b" }], "prompt.history[0]"],
    [[{ user: { a: 1 } }], "a turn is {user, bot}, {role, content} or [user, bot]"],
  ])("refuses %j", (turns, message) => {
    expect(() => messages(turns)).toThrow(message);
  });
});
