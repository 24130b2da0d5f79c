import { describe, expect, it } from "vitest";
import { predictionResponse, requestCost } from "../../../src/engines/batching/prediction.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { chatRequest } from "../engine-context.ts";

describe("predictionResponse", () => {
  it("takes texts as answers in words", () => {
    expect(predictionResponse("hello", 0.5)).toEqual({
      answers: [{ text: "hello", finishReason: "stop", tokens: 0 }],
      usage: noUsage,
      seconds: 0.5,
    });
    const said = { text: "hel", finishReason: "length", promptTokens: 4, completionTokens: 2 };
    expect(predictionResponse(said, 0)).toMatchObject({
      answers: [{ text: "hel", finishReason: "length", tokens: 2 }],
      usage: { promptTokens: 4, completionTokens: 2 },
    });
  });

  it("refuses answers with unknown reasons, and tokens that no model can count", () => {
    const nulls = { text: "a", finishReason: null, promptTokens: null };
    expect(predictionResponse(nulls, 0)).toMatchObject({ answers: [{ finishReason: "stop" }] });
    const message = (said: JsonObject) =>
      (predictionResponse({ text: "a", ...said }, 0) as Error).message;
    expect(message({ finishReason: "lenght" })).toContain(
      'finishReason must be one of stop, length, error, not "lenght"; did you mean length?',
    );
    expect(message({ promptTokens: -1 })).toContain(
      "promptTokens must be a whole number of 0 or more, not -1",
    );
    for (const completionTokens of [1.5, "12", [], 1e300]) {
      expect(message({ completionTokens })).toContain("completionTokens must be a whole number");
    }
  });

  it.each([[null], [3], [[0.1, 0.2]], [{ label: "good" }], [{ text: "a", label: "good" }]])(
    "takes %j as a value",
    (value) => {
      const answer = { value, text: JSON.stringify(value) };
      expect(predictionResponse(value, 0)).toMatchObject({ answers: [answer] });
    },
  );
});

it("counts the characters of what is asked", () => {
  const { messages: _, ...bare } = chatRequest(0);
  expect(requestCost({ ...bare, prompt: "12345" })).toEqual({ chars: 5, tokens: 2 });
  const messages = [{ role: "user" as const, content: "1234" }];
  expect(requestCost({ ...bare, messages })).toEqual({ chars: 4, tokens: 1 });
  expect(requestCost({ ...bare, row: { id: 1, title: "12", text: "345" } }).chars).toBe(5);
});
