import { describe, expect, it } from "vitest";
import { readReply } from "../../../src/engines/openai/reply.ts";

const same = (text: string) => text;
const read = (body: unknown, form: "chat" | "completion" = "chat") => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return readReply({ status: 200, headers: {}, text }, form, same);
};
const chat = (content: unknown, finish: unknown = "stop", usage?: unknown) => ({
  choices: [{ message: { content }, finish_reason: finish }],
  usage,
});
const codeOf = (body: unknown, form: "chat" | "completion" = "chat") => {
  try {
    return read(body, form);
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe("readReply", () => {
  it("reads text, finish reason and usage", () => {
    const usage = {
      prompt_tokens: 12,
      completion_tokens: 5,
      prompt_tokens_details: { cached_tokens: 8 },
    };
    expect(read(chat("hello", "length", usage))).toEqual({
      answer: { text: "hello", finishReason: "length", tokens: 5 },
      usage: { promptTokens: 12, cachedTokens: 8, completionTokens: 5 },
    });
    expect(read({ choices: [{ text: "on" }] }, "completion").answer).toEqual({
      text: "on",
      finishReason: "stop",
      tokens: 0,
    });
  });

  it.each([
    ["stop", "stop"],
    ["eos_token", "stop"],
    [null, "stop"],
    ["length", "length"],
    ["max_tokens", "length"],
    ["content_filter", "error"],
  ])("maps finish_reason %s to %s", (given, reason) => {
    expect(read(chat("x", given)).answer.finishReason).toBe(reason);
  });

  it("takes token counts that are no counts as 0", () => {
    const usage = { prompt_tokens: "12", completion_tokens: -1, prompt_tokens_details: null };
    expect(read(chat("x", "stop", usage)).usage).toEqual({
      promptTokens: 0,
      cachedTokens: 0,
      completionTokens: 0,
    });
  });

  it("keeps an empty answer apart from none", () => {
    expect(read(chat("")).answer.text).toBe("");
    expect(codeOf(chat(null, "length"))).toBe("ANSWER_EMPTY");
    expect(codeOf({ choices: [] })).toBe("ANSWER_EMPTY");
  });

  it.each([
    ["", "chat"],
    ['{"choices":[{"mess', "chat"],
    ["[]", "chat"],
    ["null", "chat"],
    ["{}", "chat"],
    [{ choices: {} }, "chat"],
    [{ choices: ["x"] }, "chat"],
    [{ choices: [{ text: "x" }] }, "chat"],
    [chat("x"), "completion"],
    [chat(7), "chat"],
    [{ choices: [{ text: ["x"] }] }, "completion"],
  ] as const)("finds %j as %s malformed", (body, form) => {
    expect(codeOf(body, form)).toBe("RESPONSE_MALFORMED");
  });
});
