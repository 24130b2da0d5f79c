import { describe, expect, it } from "vitest";
import { failureOf, responseOf } from "../../../src/engines/command/response.ts";
import type { Json } from "../../../src/foundation/json.ts";
import { promptRequest } from "./command-engine.ts";

const request = promptRequest(0, "words");
const several = { ...request, parameters: { ...request.parameters, numReturnSequences: 2 } };
const response = (result: Json, asked = request) => responseOf(result, asked, 0.5);

describe("responseOf", () => {
  it("takes texts with their tokens, and values", () => {
    const told = { text: "hi", finishReason: "length", promptTokens: 5, completionTokens: 2 };
    expect(response(told)).toEqual({
      answers: [{ text: "hi", finishReason: "length", tokens: 2 }],
      usage: { promptTokens: 5, cachedTokens: 0, completionTokens: 2 },
      seconds: 0.5,
    });
    expect(response({ text: "hi", extra: 1 })).toMatchObject({
      answers: [{ text: "hi", tokens: 0 }],
    });
    expect(response({ value: [1, 2] })).toMatchObject({ answers: [{ value: [1, 2] }] });
    expect(response({ value: null })).toMatchObject({ answers: [{ value: null }] });
    expect(response({ value: "text" })).toMatchObject({ answers: [{ text: "text" }] });
  });

  it("takes as many answers as were asked for, and counts the prompt once", () => {
    const answers = [
      { text: "a", promptTokens: 5, completionTokens: 1 },
      { text: "b", promptTokens: 5, completionTokens: 2 },
    ];
    expect(response({ answers }, several)).toMatchObject({
      answers: [{ text: "a" }, { text: "b" }],
      usage: { promptTokens: 5, completionTokens: 3 },
    });
    expect(response({ answers })).toMatchObject({ code: "PREDICTION_FAILED" });
    expect(response({ text: "a" }, several)).toMatchObject({ code: "PREDICTION_FAILED" });
  });

  it("names what is no result", () => {
    expect((response({ answers: ["a"] }) as Error).message).toContain('not a JSON object: "a"');
    const others: Json[] = [null, "text", 3, {}, { text: 3 }];
    for (const result of others) {
      const error = response(result);
      expect(error).toMatchObject({ code: "PREDICTION_FAILED" });
      expect((error as Error).message).toContain(JSON.stringify(result));
    }
  });
});

describe("failureOf", () => {
  it("keeps the codes that programs may give, and no other", () => {
    const codeOf = (code?: string) => failureOf({ message: "m", ...(code && { code }) }).code;
    expect(codeOf("OUT_OF_MEMORY")).toBe("OUT_OF_MEMORY");
    expect(codeOf("PROMPT_TOO_LONG")).toBe("PROMPT_TOO_LONG");
    expect(codeOf("STORE_FULL")).toBe("PREDICTION_FAILED");
    expect(codeOf()).toBe("PREDICTION_FAILED");
  });
});
