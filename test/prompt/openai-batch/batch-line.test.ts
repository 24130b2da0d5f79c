import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { readBatchLine as readLine } from "../../../src/prompt/openai-batch/batch-line.ts";

const chat = (changes: JsonObject = {}): JsonObject => ({
  custom_id: "a",
  method: "POST",
  url: "/v1/chat/completions",
  body: { model: "m", messages: [{ role: "user", content: "Hi" }], max_tokens: 5 },
  ...changes,
});
const line = (url: string, body: JsonObject) => chat({ url, body });

const readBatchLine = (row: JsonObject) => readLine(row, { callsTools: false, contentParts: [] });

describe("readBatchLine", () => {
  it("reads a chat, a completion and embeddings", () => {
    expect(readBatchLine(chat())).toEqual({
      kind: "chat",
      model: "m",
      messages: [{ role: "user", content: "Hi" }],
      parameters: { maxNewTokens: 5 },
    });
    expect(readBatchLine(line("/v1/completions", { prompt: ["Once"] }))).toEqual({
      kind: "completion",
      model: undefined,
      prompts: ["Once"],
      parameters: {},
    });
    const { prompts } = readBatchLine(line("/v1/embeddings", { input: ["x", "y"] }));
    expect(prompts).toEqual(["x", "y"]);
  });

  it.each(["custom_id", "method", "url", "body"])("misses %s", (field) => {
    for (const absent of [undefined, null]) {
      const { [field]: _, ...rest } = chat();
      const row = absent === null ? chat({ [field]: null }) : rest;
      const missing = { code: "PARAMETER_MISSING", place: { field } };
      expect(() => readBatchLine(row)).toThrow(expect.objectContaining(missing));
    }
  });

  it.each([
    ["custom_id", 7],
    ["custom_id", ""],
    ["method", "GET"],
    ["body", []],
  ])("refuses %s: %j", (field, value) => {
    const invalid = { code: "PARAMETER_INVALID", place: { field } };
    expect(() => readBatchLine(chat({ [field]: value }))).toThrow(expect.objectContaining(invalid));
  });

  it("refuses another url, with the nearest", () => {
    const misspelt = () => readBatchLine(chat({ url: "/v1/chat/completion" }));
    expect(misspelt).toThrow(expect.objectContaining({ code: "URL_UNSUPPORTED" }));
    expect(misspelt).toThrow("did you mean /v1/chat/completions?");
    expect(() => readBatchLine(chat({ url: "/v1/audio" }))).toThrow(/known are \/v1\/chat/);
  });

  it("reads the form that an answer must have, and refuses others", () => {
    const format = (value: JsonObject | null) =>
      readBatchLine(line("/v1/completions", { prompt: "p", response_format: value })).format;
    const schema = { type: "object" };
    expect(format({ type: "json_schema", json_schema: { name: "x", schema } })).toEqual({ schema });
    expect(format({ type: "json_object" })).toBe("json_object");
    expect([format({ type: "text" }), format(null)]).toEqual([undefined, undefined]);
    expect(() => format({ type: "grammar" })).toThrow(/"grammar"; text, json_object and json_s/);
    expect(() => format({ type: "json_schema" })).toThrow(/json_schema.schema/);
  });

  it("reads several prompts of one completion, and refuses too many, and tokens", () => {
    const of = (prompt: string[]) => readBatchLine(line("/v1/completions", { prompt }));
    expect(of(["a", "b"]).prompts).toEqual(["a", "b"]);
    expect(() => of(new Array(2049).fill("a"))).toThrow(/a list of more than 2048/);
    for (const input of [[1, 2], [[1]]]) {
      expect(() => readBatchLine(line("/v1/embeddings", { input }))).toThrow(/tokens in place/);
    }
    expect(() => readBatchLine(line("/v1/embeddings", { input: [] }))).toThrow(/a text or a list/);
    expect(() => readBatchLine(line("/v1/completions", {}))).toThrow(/body.prompt/);
  });
});
