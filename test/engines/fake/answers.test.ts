import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeAnswers } from "../../../src/engines/fake/answers.ts";
import type { GrammarNode } from "../../../src/foundation/grammar.ts";
import type { InferenceRequest, SlottedLine } from "../../../src/foundation/inference.ts";
import { candidateSpans } from "../../../src/foundation/spans.ts";
import { chatRequest } from "../engine-context.ts";

const textOf = (answers: FakeAnswers, request: ReturnType<typeof chatRequest>) =>
  answers.respond(request, 0).answers[0]!.text;

describe("FakeAnswers", () => {
  it("follow from seed, request seed and prompt, not from the row", () => {
    const answers = new FakeAnswers(1);
    const request = chatRequest(1);
    expect(textOf(new FakeAnswers(1), request)).toBe(textOf(answers, request));
    expect(textOf(answers, { ...request, origin: { index: 50, promptName: "p" } })).toBe(
      textOf(answers, request),
    );
    expect(textOf(new FakeAnswers(2), request)).not.toBe(textOf(answers, request));
    expect(textOf(answers, chatRequest(1, { seed: 4 }))).not.toBe(textOf(answers, request));
  });

  it("differ between prompts", () => {
    const answers = new FakeAnswers(1);
    const texts = Array.from({ length: 200 }, (_, index) => textOf(answers, chatRequest(index)));
    expect(new Set(texts).size).toBeGreaterThanOrEqual(198);
  });

  it("count words as tokens", () => {
    const response = new FakeAnswers(1).respond(chatRequest(12), 0.5);
    const [answer] = response.answers;
    expect(answer!.tokens).toBe(answer!.text.split(" ").length);
    expect(response.usage).toEqual({
      promptTokens: 5,
      cachedTokens: 0,
      completionTokens: answer!.tokens,
    });
    expect(response.seconds).toBe(0.5);
  });

  it("obey maxNewTokens", () => {
    fc.assert(
      fc.property(fc.nat(), fc.integer({ min: 1, max: 12 }), (index, maxNewTokens) => {
        const request = chatRequest(index, { maxNewTokens });
        const [answer] = new FakeAnswers(0).respond(request, 0).answers;
        const whole = new FakeAnswers(0).respond(chatRequest(index), 0).answers[0]!;
        expect(answer!.tokens).toBe(Math.min(whole.tokens, maxNewTokens));
        expect(answer!.text.split(" ").length).toBe(answer!.tokens);
        expect(answer!.finishReason).toBe(whole.tokens > maxNewTokens ? "length" : "stop");
      }),
    );
  });

  it("end before a stop text", () => {
    const answers = new FakeAnswers(1);
    const whole = textOf(answers, chatRequest(1));
    const third = whole.split(" ")[2]!;
    const text = textOf(answers, chatRequest(1, { stop: ["never said", third] }));
    expect(whole.startsWith(text)).toBe(true);
    expect(text).not.toContain(third);
    expect(textOf(answers, chatRequest(1, { stop: [whole.slice(0, 2)] }))).toBe("");
  });

  it("are as many as asked for, the first as if it were the only one", () => {
    const three = new FakeAnswers(1).respond(chatRequest(1, { numReturnSequences: 3 }), 0);
    const texts = three.answers.map(({ text }) => text);
    expect(texts[0]).toBe(textOf(new FakeAnswers(1), chatRequest(1)));
    expect(new Set(texts).size).toBe(3);
    const tokens = three.answers.reduce((sum, answer) => sum + answer.tokens, 0);
    expect(three.usage.completionTokens).toBe(tokens);
  });

  it("keep prompt and answer within maxLength", () => {
    const answers = new FakeAnswers(1);
    const [answer] = answers.respond(chatRequest(1, { maxLength: 8 }), 0).answers;
    expect(answer).toMatchObject({ tokens: 3, finishReason: "length" });
    const tight = chatRequest(1, { maxLength: 5 });
    expect(() => answers.respond(tight, 0)).toThrow("5 words, generation.maxLength is 5");
  });

  it("go on to their limit with ignoreEos", () => {
    const parameters = { ignoreEos: true, maxNewTokens: 100 };
    const [answer] = new FakeAnswers(1).respond(chatRequest(1, parameters), 0).answers;
    expect(answer).toMatchObject({ tokens: 100, finishReason: "length" });
    expect(answer!.text.split(" ").length).toBe(100);
  });

  it("report each token with its alternatives, the likeliest first", () => {
    const [answer] = new FakeAnswers(1).respond(chatRequest(1, { logprobs: 3 }), 0).answers;
    const logprobs = answer!.logprobs!;
    expect(logprobs.map(({ token }) => token).join("")).toBe(answer!.text);
    expect(logprobs.length).toBe(answer!.tokens);
    for (const { token, logprob, alternatives } of logprobs) {
      expect(alternatives[0]).toEqual({ token, logprob });
      const values = alternatives.map((alternative) => alternative.logprob);
      expect(values).toEqual(values.toSorted((a, b) => b - a));
      expect(values.length).toBe(3);
    }
  });

  it("fill slots by copying, differently for different rows", () => {
    const source = "Bake at 350 degrees F for 25 to 30 minutes or until golden.";
    const slot = { name: "time", source, orElse: "none", maxWords: 4, pattern: ".*minutes" };
    const slottedLine: SlottedLine = { line: "time={time};", slots: [slot] };
    const allowed = ["none", ...candidateSpans(slot)].map((span) => `time=${span};`);
    const given = Array.from({ length: 50 }, (_, index) =>
      textOf(new FakeAnswers(1), { ...chatRequest(index), slottedLine }),
    );
    expect(given.filter((text) => !allowed.includes(text))).toEqual([]);
    expect(new Set(given).size).toBe(allowed.length);
  });

  it("have the structure that is asked for, and are cut as others are", () => {
    const item: GrammarNode = { kind: "text", text: "null" };
    const more: GrammarNode = { kind: "repeat", item: { kind: "text", text: ", null" }, min: 4 };
    const bracket = (text: string): GrammarNode => ({ kind: "text", text });
    const items = [bracket("["), item, more, bracket("]")];
    const structure = { schema: {}, grammar: { root: { kind: "sequence", items }, rules: {} } };
    const asked = { ...chatRequest(3), structure } as InferenceRequest;
    const text = textOf(new FakeAnswers(1), asked);
    expect(JSON.parse(text)).toEqual(Array(JSON.parse(text).length).fill(null));
    expect(textOf(new FakeAnswers(1), asked)).toBe(text);
    const short = { ...asked, parameters: { ...asked.parameters, maxNewTokens: 2 } };
    const [answer] = new FakeAnswers(1).respond(short, 0).answers;
    expect(answer).toMatchObject({ text: "[null, null,", finishReason: "length", tokens: 2 });
  });

  it("calls a tool where there are some, and speaks once it was given", () => {
    const answers = new FakeAnswers(1);
    const tools = ["add", "now"].map((name) => ({ type: "function", function: { name } }));
    const request: InferenceRequest = { ...chatRequest(1), tools };
    const [answer] = answers.respond(request, 0).answers;
    expect(answer!.toolCalls).toMatchObject([{ type: "function", function: { arguments: "{}" } }]);
    expect(answers.respond(request, 0).answers).toEqual([answer]);
    const named = { type: "function", function: { name: "now" } };
    const [chosen] = answers.respond({ ...request, toolChoice: named }, 0).answers;
    expect(chosen!.toolCalls![0]!.function.name).toBe("now");
    const given = { role: "tool" as const, content: "5", toolCallId: "c" };
    const after = { ...request, messages: [...request.messages!, given] };
    for (const silent of [after, { ...request, toolChoice: "none" as const }]) {
      const [spoken] = answers.respond(silent, 0).answers;
      expect(spoken).not.toHaveProperty("toolCalls");
      expect(spoken!.text).not.toBe("");
    }
  });
});
