import { describe, expect, it } from "vitest";
import type { TextMessage } from "../../../src/foundation/inference.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { filledIn, planTurns } from "../../../src/prompt/types/turns.ts";

const message = (role: TextMessage["role"], content: string): TextMessage => ({ role, content });
const recorded = [
  message("system", "s"),
  message("assistant", "greeting"),
  message("user", "q1"),
  message("assistant", "a1"),
  message("assistant", "a1, more"),
  message("user", "q2"),
  message("user", "q2, more"),
  message("system", "reminder"),
  message("assistant", "a2"),
];

describe("planTurns", () => {
  it("first: what stands before the first answer", () => {
    expect(planTurns(recorded, "first")).toEqual([recorded.slice(0, 3)]);
  });

  it("last: all but the expected answer, with the recorded ones before it", () => {
    expect(planTurns(recorded, "last")).toEqual([recorded.slice(0, 8)]);
    expect(planTurns(recorded.slice(0, 8), "last")).toEqual([recorded.slice(0, 8)]);
  });

  it("every: each turn in order, with the model's own answers in place of the recorded", () => {
    const asks = planTurns(recorded, "every");
    expect(asks).toEqual([
      recorded.slice(0, 3),
      [...recorded.slice(0, 3), { role: "assistant", answerOf: 0 }, ...recorded.slice(5, 8)],
    ]);
    const contents = filledIn(asks[1]!, ["mine"]).map(({ content }) => content);
    expect(contents).toEqual(["s", "greeting", "q1", "mine", "q2", "q2, more", "reminder"]);
  });

  it("takes each message of the user for a turn where no answers are recorded", () => {
    const questions = ["a", "b"].map((text) => message("user", text));
    expect(planTurns(questions, "every")).toEqual([
      [questions[0]],
      [questions[0], { role: "assistant", answerOf: 0 }, questions[1]],
    ]);
    expect(planTurns(questions, "first")).toEqual([[questions[0]]]);
  });

  it("of a third turn holds both answers before it", () => {
    const talk = ["a", "b", "c"].map((text) => message("user", text));
    const answers = ["x", "y"].map((text) => message("assistant", text));
    const asks = planTurns([talk[0]!, answers[0]!, talk[1]!, answers[1]!, talk[2]!], "every");
    expect(asks.map((ask) => ask.length)).toEqual([1, 3, 5]);
    const last = filledIn(asks[2]!, ["1", "2"]);
    expect(last.map(({ content }) => content)).toEqual(["a", "1", "b", "2", "c"]);
  });

  it.each(["first", "last", "every"] as const)(
    "%s: asks nothing where no user speaks",
    (policy) => {
      expect(planTurns([message("system", "s"), message("assistant", "a")], policy)).toEqual([]);
      expect(planTurns([], policy)).toEqual([]);
    },
  );

  it("refuses more turns than one row may ask", () => {
    const turn = [message("user", "q"), message("assistant", "a")];
    const long = Array.from({ length: limits.maxElements + 1 }, () => turn).flat();
    const code = "ELEMENTS_TOO_MANY";
    expect(() => planTurns(long, "every")).toThrow(expect.objectContaining({ code }));
    expect(planTurns(long, "last")).toHaveLength(1);
  });
});
