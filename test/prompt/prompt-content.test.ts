import { describe, expect, it } from "vitest";
import { greedyParameters } from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { promptOptions } from "../../src/prompt/prompt-options.ts";
import { compilePromptSet } from "../../src/prompt/prompt-set.ts";

const generation = {
  ...greedyParameters,
  maxNewTokens: 50,
  seed: 1,
};
const compiled = (options: JsonObject, more: object = {}) =>
  compilePromptSet({
    generation: { ...generation, ...more },
    prompts: { p: promptOptions.parse(options) },
  });
const request = (options: JsonObject, row: JsonObject) => compiled(options).requests(row, 0)[0]!;
const row = { instruction: "Count on.", input: "1 2 3", response: "4" };

describe("a prompt with a type", () => {
  it("is asked in the type's words", () => {
    expect(request({ type: "gpteacher" }, row)).toMatchObject({
      origin: { promptName: "p" },
      prompt: expect.stringMatching(/^Below is .*1 2 3\n\n### Response:\n$/s),
      onTooLong: "fail",
    });
    expect(request({ type: "gpteacher" }, row).messages).toBeUndefined();
    const talk = { messages: [{ role: "user", content: "Hi" }] };
    expect(request({ type: "chat_template" }, talk).messages).toEqual(talk.messages);
  });

  it("may be a map of one's own", () => {
    const type = { field_instruction: "q", no_input_format: "Q: {instruction}" };
    expect(request({ type }, { q: "why?" }).prompt).toBe("Q: why?");
    expect(() => promptOptions.parse({ type: { fields: "q" } })).toThrow();
  });

  it("may be slotted and continued in full as any completion", () => {
    const answer = { line: "next={next}", slots: { next: { copyFrom: "input" } } };
    expect(request({ type: "alpaca", answer }, row).slottedLine).toMatchObject({
      slots: [{ name: "next", source: "1 2 3" }],
    });
    const full = compiled({ type: "completion" }, { returnFullText: true });
    const requests = full.requests({ text: "Once" }, 0);
    const answers = [{ text: " more", finishReason: "stop" as const, tokens: 1 }];
    const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 1 };
    expect(full.answer(requests, [{ answers, usage, seconds: 0 }])).toEqual({ p: "Once more" });
    const chat = { type: "completion", api: "chat" };
    expect(() => compiled(chat, { returnFullText: true })).toThrow(/returnFullText/);
  });

  it("takes no words of its own beside the type's", () => {
    expect(() => promptOptions.parse({ type: "alpaca", prompt: "x" })).toThrow(/exactly one/);
    expect(() => compiled({ type: "alpaca", system: "x" })).toThrow(/prompts\.p\.system/);
    expect(() => compiled({ type: "alpaca", forEach: "x" })).toThrow(/prompts\.p\.forEach/);
    expect(() => compiled({ prompt: "x", turns: "last" })).toThrow(/prompts\.p\.turns/);
    expect(() => compiled({ prompt: "x", typeOptions: {} })).toThrow(/prompts\.p\.typeOptions/);
  });
});

describe("image", () => {
  it("names a file beside the words", () => {
    const options = { prompt: "What is on {{ name }}?", image: "{{ path }}" };
    expect(request(options, { name: "it", path: "a.png" })).toMatchObject({
      messages: [{ role: "user", content: "What is on it?" }],
      file: "a.png",
    });
  });

  it.each([
    { prompt: "x", api: "completion" },
    { prompt: "x", api: "embedding" },
    { messages: [{ role: "user", content: "x" }] },
    { type: "chat_template" },
    { api: "transcription", file: "x" },
  ])("goes with the words of a chat alone: %j", (options) => {
    const parse = () => promptOptions.parse({ ...options, image: "a.png" });
    expect(parse).toThrow(/an image goes with prompt, in a chat/);
  });
});

describe("truncateFeatures", () => {
  it("empties fields before any prompt is rendered", () => {
    const truncateFeatures = ["input", "response"];
    expect(request({ type: "gpteacher", truncateFeatures }, row).prompt).not.toContain("1 2 3");
    const prompt = "{{ instruction }}{{ response }}";
    expect(request({ prompt, truncateFeatures }, row).messages).toEqual([
      { role: "user", content: "Count on." },
    ]);
  });
});

describe("stripWhitespace and eosToken", () => {
  it("clean the prompt of a completion", () => {
    const cleaning = { stripWhitespace: true, eosToken: "</s>" };
    expect(request({ type: "completion", ...cleaning }, { text: " Once </s>\n" }).prompt).toBe(
      "Once",
    );
    const template = { prompt: "{{ text }}</s>", api: "completion", eosToken: "</s>" };
    expect(request(template, { text: "Once" }).prompt).toBe("Once");
  });

  it("are refused for a chat", () => {
    expect(() => compiled({ prompt: "x", eosToken: "</s>" })).toThrow(/prompts\.p\.eosToken/);
    const chat = { type: "chat_template", stripWhitespace: true };
    expect(() => compiled(chat)).toThrow(/prompts\.p\.stripWhitespace/);
  });
});
