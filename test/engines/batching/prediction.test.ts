import { describe, expect, it } from "vitest";
import { predictionResponse, requestCost } from "../../../src/engines/batching/prediction.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
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

  it.each([[null], [3], [[0.1, 0.2]], [{ label: "good" }], [{ text: "a", label: "good" }]])(
    "takes %j as a value",
    (value) => {
      const [answer] = predictionResponse(value, 0).answers;
      expect(answer).toMatchObject({ value, text: JSON.stringify(value) });
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
