import { describe, expect, it } from "vitest";
import type { Answer, SamplingParameters } from "../../../src/foundation/inference.ts";
import { greedyParameters, noUsage } from "../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import {
  BatchPromptSet,
  type BatchPromptSetOptions,
} from "../../../src/prompt/openai-batch/batch-prompt-set.ts";

const parameters: SamplingParameters = {
  ...greedyParameters,
  maxNewTokens: 99,
  seed: 4,
};

const setOf = (changes: Partial<BatchPromptSetOptions> = {}) =>
  new BatchPromptSet({
    parameters,
    models: ["m"],
    gives: { text: true, embedding: true },
    taken: { callsTools: true, contentParts: ["image"] },
    enforcesArguments: false,
    unsupportedBy: () => [],
    ...changes,
  });

const chatRow = (body: JsonObject = {}): JsonObject => ({
  custom_id: "a",
  method: "POST",
  url: "/v1/chat/completions",
  body: { messages: [{ role: "user", content: "Hi" }], ...body },
});
const embeddingRow = (input: string | string[]): JsonObject => ({
  ...chatRow(),
  url: "/v1/embeddings",
  body: { input },
});

const response = (...answers: Partial<Answer>[]) => ({
  answers: answers.map(
    (answer): Answer => ({
      text: "",
      finishReason: "stop",
      tokens: 1,
      ...answer,
    }),
  ),
  usage: noUsage,
  seconds: 0,
});

describe("BatchPromptSet", () => {
  it("lays a body's parameters over the job's, and says which were written", () => {
    const [request] = setOf().requests(chatRow({ top_p: 0.5 }), 3);
    expect(request).toMatchObject({
      origin: { index: 3 },
      messages: [{ role: "user", content: "Hi" }],
      parameters: { maxNewTokens: 99, topP: 0.5, seed: 4, explicit: ["topP"] },
    });
  });

  it("gives lines with the same parameters one object, and others another", () => {
    const set = setOf();
    const parametersFor = (body: JsonObject) => set.requests(chatRow(body), 0)[0]!.parameters;
    const first = parametersFor({ seed: 1 });
    expect(parametersFor({ seed: 1 })).toBe(first);
    expect(parametersFor({ seed: 2 }).seed).toBe(2);
    expect(parametersFor({}).seed).toBe(4);
  });

  it("puts a line's limit in the place of the job's", () => {
    const set = setOf({ parameters: { ...parameters, maxLength: 100 } });
    expect(set.requests(chatRow(), 0)[0]!.parameters.maxLength).toBe(100);
    const limited = set.requests(chatRow({ max_tokens: 5 }), 0)[0]!.parameters;
    expect(limited).toMatchObject({ maxNewTokens: 5 });
    expect(limited).not.toHaveProperty("maxLength");
  });

  it("asks only for the model that answers, for its other names, or for any", () => {
    const asked = chatRow({ model: "gpt-4o" });
    expect(() => setOf().requests(asked, 0)).toThrow("the line names gpt-4o, and this run has m");
    expect(setOf().requests(chatRow({ model: "m" }), 0)).toHaveLength(1);
    for (const models of [["m", "gpt-4o"], ["*"]]) {
      expect(setOf({ models }).requests(asked, 0)).toHaveLength(1);
    }
  });

  it("refuses what the engine would drop, each time", () => {
    const set = setOf({ unsupportedBy: ({ topK }) => (topK > 0 ? ["generation.topK"] : []) });
    for (const _ of [1, 2]) {
      expect(() => set.requests(chatRow({ top_k: 4 }), 0)).toThrow(/cannot do generation.topK/);
    }
    expect(set.requests(chatRow(), 0)).toHaveLength(1);
  });

  it("hands tools to an engine that calls them, and refuses them for others", () => {
    const tools = [{ type: "function", function: { name: "weather" } }];
    const body = { tools, tool_choice: "required", parallel_tool_calls: false };
    const asked = { tools, toolChoice: "required", parallelToolCalls: false };
    expect(setOf().requests(chatRow(body), 0)).toMatchObject([asked]);
    const refused = { code: "PARAMETER_UNSUPPORTED", place: { field: "body.tools" } };
    expect(() =>
      setOf({ taken: { callsTools: false, contentParts: [] } }).requests(chatRow(body), 0),
    ).toThrow(
      expect.objectContaining({
        ...refused,
        message: expect.stringContaining("ask a server by engine openai"),
      }),
    );
  });

  it("enforces the arguments of calls where the engine does", () => {
    const parameters = { type: "object", properties: { days: { type: "integer" } } };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const set = setOf({ enforcesArguments: true });
    const [request] = set.requests(chatRow({ tools }), 0);
    expect(Object.keys(request!.argumentGrammars!)).toEqual(["weather"]);
    const called = (given: string) =>
      response({
        toolCalls: [{ id: "1", type: "function", function: { name: "weather", arguments: given } }],
      });
    const right = called('{"days": 3}');
    expect(set.accept(request!, right)).toBe(right);
    expect(() => set.accept(request!, called('{"days": "3"}'))).toThrow(/arguments of weather/);
    const [plain] = setOf().requests(chatRow({ tools }), 0);
    expect(plain).not.toHaveProperty("argumentGrammars");
    const wrong = called('{"days": "3"}');
    expect(setOf().accept(plain!, wrong)).toBe(wrong);
  });

  it("refuses a choice that names none of the tools", () => {
    const tools = [{ type: "function", function: { name: "weather" } }];
    const choice = (name: string) => ({ type: "function", function: { name } });
    const body = { tools, tool_choice: choice("weather") };
    expect(setOf().requests(chatRow(body), 0)).toMatchObject([{ toolChoice: choice("weather") }]);
    expect(() => setOf().requests(chatRow({ tools, tool_choice: choice("time") }), 0)).toThrow(
      expect.objectContaining({
        ...{ code: "PARAMETER_INVALID", place: { field: "body.tool_choice.function.name" } },
      }),
    );
  });

  it("asks for a vector of each input, if the engine gives vectors", () => {
    const without = setOf({ gives: { text: true, embedding: false } });
    expect(() => without.requests(embeddingRow("x"), 0)).toThrow(
      /gives no vectors, engine llama does/,
    );
    expect(setOf().requests(embeddingRow("x"), 0)).toMatchObject([{ prompt: "x", embed: true }]);
    expect(setOf().requests(embeddingRow(["x", "y"]), 0)).toMatchObject([
      { prompt: "x", origin: { element: 0 }, embed: true },
      { prompt: "y", origin: { element: 1 }, embed: true },
    ]);
  });

  it("asks no model for texts that gives only vectors", () => {
    const only = setOf({ gives: { text: false, embedding: true } });
    expect(() => only.requests(chatRow({}), 0)).toThrow(/vectors, by \/v1\/embeddings/);
    expect(only.requests(embeddingRow("x"), 0)).toMatchObject([{ prompt: "x", embed: true }]);
  });

  it("takes no reply that leaves out what was asked for", () => {
    const set = setOf();
    const [two] = set.requests(chatRow({ n: 2 }), 0);
    expect(() => set.accept(two!, response({}))).toThrow(/gave 1 of 2 \(field body.n\)/);
    expect(set.accept(two!, response({}, {})).answers).toHaveLength(2);
    const [probable] = set.requests(chatRow({ logprobs: true }), 0);
    expect(() => set.accept(probable!, response({}))).toThrow(/body.logprobs/);
    expect(set.accept(probable!, response({ logprobs: [] })).answers).toHaveLength(1);
    const [vector] = set.requests(embeddingRow("x"), 0);
    expect(set.accept(vector!, response({ value: [0.5] })).answers).toHaveLength(1);
  });

  it("holds answers to a line's schema, and says what is wrong with one", () => {
    const schema = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
    const response_format = { type: "json_schema", json_schema: { name: "x", schema } };
    const set = setOf();
    const [request] = set.requests(chatRow({ response_format }), 0);
    expect(request!.structure?.schema).toMatchObject(schema);
    const accepted = set.accept(request!, response({ text: '```json\n{"a": 1}\n```' }));
    expect(accepted.answers).toMatchObject([{ text: '{"a":1}', value: { a: 1 } }]);
    expect(() => set.accept(request!, response({ text: "one" }))).toThrow(/not JSON/);
    const again = set.reask(request!, "one", "it is not JSON");
    expect(again.messages?.slice(1)).toMatchObject([
      { role: "assistant", content: "one" },
      { role: "user", content: expect.stringContaining("the corrected JSON only") },
    ]);
    const not = { type: "json_schema", json_schema: { schema: { not: {} } } };
    expect(() => set.requests(chatRow({ response_format: not }), 0)).toThrow(
      expect.objectContaining({
        code: "PARAMETER_UNSUPPORTED",
        place: { field: "body.response_format.json_schema.schema.not" },
      }),
    );
  });

  it("takes any JSON object where a line asks for one, and nothing else", () => {
    const set = setOf();
    const [request, other] = [1, 2].map(
      (index) => set.requests(chatRow({ response_format: { type: "json_object" } }), index)[0]!,
    );
    expect(request!.structure).toMatchObject({ schema: { type: "object" }, isAnyObject: true });
    expect(other!.structure).toBe(request!.structure);
    const accepted = set.accept(request!, response({ text: '{"a": [1, {"b": null}]}' }));
    expect(accepted.answers).toMatchObject([{ value: { a: [1, { b: null }] } }]);
    expect(() => set.accept(request!, response({ text: "[1]" }))).toThrow(/an object, not a list/);
    expect(() => set.accept(request!, response({ text: '{"a": ' }))).toThrow(/not JSON/);
    expect(set.reask(request!, "[1]", "it must be").messages?.at(-1)?.content).toMatch(/JSON only/);
  });

  it("answers with the text, or the list of several", () => {
    const set = setOf();
    expect(set.answer([], [response({ text: "a" })])).toBe("a");
    expect(set.answer([], [response({ text: "a" }, { text: "b" })])).toEqual(["a", "b"]);
    expect(set.answer([], [response({ value: [1] }), response({ value: [2] })])).toEqual([
      [1],
      [2],
    ]);
  });
});
