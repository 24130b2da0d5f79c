import { describe, expect, it } from "vitest";
import { readReply } from "../../../src/engines/openai/reply.ts";
import type { Answer } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";

const same = (text: string) => text;
type Form = "chat" | "completion";
const read = (body: unknown, form: Form = "chat", asked: Parameters<typeof readReply>[2] = {}) => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return readReply({ status: 200, headers: {}, text }, form, asked, same);
};
const chat = (content: unknown, finish: unknown = "stop", usage?: unknown) => ({
  choices: [{ message: { content }, finish_reason: finish }],
  usage,
});
const codeOf = (body: unknown, form: Form = "chat", asked = {}) => {
  try {
    return read(body, form, asked);
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
      answers: [{ text: "hello", finishReason: "length", tokens: 5 }],
      usage: { promptTokens: 12, cachedTokens: 8, completionTokens: 5 },
    });
    expect(read({ choices: [{ text: "on" }] }, "completion").answers).toEqual([
      { text: "on", finishReason: "stop", tokens: 0 },
    ]);
  });

  it.each([
    ["stop", "stop"],
    ["eos_token", "stop"],
    [null, "stop"],
    ["length", "length"],
    ["max_tokens", "length"],
    ["content_filter", "error"],
  ])("maps finish_reason %s to %s", (given, reason) => {
    expect(read(chat("x", given)).answers[0]!.finishReason).toBe(reason);
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
    expect(read(chat("")).answers[0]!.text).toBe("");
    expect(codeOf(chat(null, "length"))).toBe("ANSWER_EMPTY");
    expect(codeOf({ choices: [] })).toBe("ANSWER_EMPTY");
  });

  it("says what was paid for an answer that cannot be used", () => {
    const usage = { prompt_tokens: 12, completion_tokens: 5 };
    const paid = { promptTokens: 12, cachedTokens: 0, completionTokens: 5 };
    for (const body of [
      chat(null, "length", usage),
      chat(7, "stop", usage),
      { choices: [], usage },
    ]) {
      expect(() => read(body)).toThrow(expect.objectContaining({ paid }));
    }
    expect(() => read(chat(null))).toThrow(expect.objectContaining({ paid: undefined }));
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

describe("what no server says", () => {
  const callsOf = (depth: number) =>
    JSON.parse(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`) as JsonObject;
  const withCalls = (depth: number) => ({
    choices: [{ message: { content: null, tool_calls: [callsOf(depth)] } }],
  });

  it("is a malformed reply, and never a fault of ours", () => {
    expect(read(withCalls(20), "chat", {}).answers[0]!.toolCalls).toHaveLength(1);
    expect(codeOf(withCalls(500))).toBe("RESPONSE_MALFORMED");
    const strange = { choices: [{ message: { content: null }, finish_reason: { toString: 1 } }] };
    expect(codeOf(strange)).toBe("ANSWER_EMPTY");
    expect(read(chat("x", "constructor"), "chat", {}).answers[0]!.finishReason).toBe("stop");
  });

  it("is no token of log-probabilities", () => {
    const content = [{ token: { toString: 1 }, logprob: -1, top_logprobs: [{ token: 7 }] }];
    const body = { choices: [{ message: { content: "x" }, logprobs: { content } }] };
    const [{ logprobs }] = read(body, "chat", { logprobs: 1 }).answers as [Answer];
    expect(logprobs).toMatchObject([{ token: "", alternatives: [{ token: "7" }] }]);
  });
});

describe("several answers", () => {
  const choices = [
    { index: 1, text: "bb", finish_reason: "length" },
    { index: 0, text: "aaaaaaaa", finish_reason: "stop" },
  ];
  const asked = { numReturnSequences: 2 };

  it("are read in order, and share out the tokens that the server counted", () => {
    const body = { choices, usage: { prompt_tokens: 3, completion_tokens: 7 } };
    const { answers, usage } = read(body, "completion", asked);
    expect(answers).toEqual([
      { text: "aaaaaaaa", finishReason: "stop", tokens: 6 },
      { text: "bb", finishReason: "length", tokens: 1 },
    ]);
    expect(usage.completionTokens).toBe(7);
  });

  it("have no tokens where the server counts none", () => {
    const counts = read({ choices }, "completion", asked).answers.map(({ tokens }) => tokens);
    expect(counts).toEqual([0, 0]);
  });

  it("count from index 0 on where there are more than were asked for", () => {
    expect(read({ choices }, "completion", {}).answers).toMatchObject([{ text: "aaaaaaaa" }]);
    const three = [{ index: 2, text: "c" }, ...choices];
    const texts = read({ choices: three }, "completion", asked).answers.map(({ text }) => text);
    expect(texts).toEqual(["aaaaaaaa", "bb"]);
  });

  it("must all be there", () => {
    expect(codeOf({ choices }, "completion", { numReturnSequences: 3 })).toBe("RESPONSE_MALFORMED");
    const [one, other] = choices;
    const silent = { choices: [one, { ...other, text: null }] };
    expect(codeOf(silent, "completion", asked)).toBe("ANSWER_EMPTY");
  });

  it("have their own tokens where log-probabilities tell them", () => {
    const logprobsOf = (...tokens: string[]) => ({
      tokens,
      token_logprobs: tokens.map(() => -1),
      top_logprobs: tokens.map((token) => ({ [token]: -1 })),
    });
    const body = {
      choices: [
        { index: 0, text: "a", logprobs: logprobsOf("a") },
        { index: 1, text: "bc", logprobs: logprobsOf("b", "c", "") },
      ],
      usage: { completion_tokens: 4 },
    };
    const { answers } = read(body, "completion", { ...asked, logprobs: 1 });
    expect(answers.map(({ tokens }) => tokens)).toEqual([1, 3]);
  });
});

describe("log-probabilities", () => {
  const top = { token: "yes", logprob: -0.1, bytes: null };
  const second = { token: "no", logprob: -2.5 };

  it("are read from chats, the likeliest first", () => {
    const content = [{ token: "no", logprob: -2.5, top_logprobs: [second, top] }];
    const body = { choices: [{ message: { content: "no" }, logprobs: { content } }] };
    expect(read(body, "chat", { logprobs: 2 }).answers[0]!.logprobs).toEqual([
      { ...second, alternatives: [{ token: "yes", logprob: -0.1 }, second] },
    ]);
  });

  it("are read from completions, without the chosen token that some servers add", () => {
    const logprobs = {
      tokens: ["no", "!"],
      token_logprobs: [-2.5, null],
      top_logprobs: [{ no: -2.5, yes: -0.1 }, null],
    };
    const body = { choices: [{ text: "no!", logprobs }] };
    expect(read(body, "completion", { logprobs: 1 }).answers[0]!.logprobs).toEqual([
      { ...second, alternatives: [{ token: "yes", logprob: -0.1 }] },
      { token: "!", logprob: -9999, alternatives: [] },
    ]);
  });

  it("must be there where they were asked for, and are left alone where not", () => {
    expect(codeOf(chat("x"), "chat", { logprobs: 1 })).toBe("RESPONSE_MALFORMED");
    expect(read(chat(""), "chat", { logprobs: 1 }).answers[0]!.logprobs).toEqual([]);
    const content = [{ token: "x", logprob: -1, top_logprobs: [] }];
    const body = { choices: [{ message: { content: "x" }, logprobs: { content } }] };
    expect(read(body).answers[0]).not.toHaveProperty("logprobs");
  });
});
