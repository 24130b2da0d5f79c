import { describe, expect, it } from "vitest";
import type { JobInput } from "../../../src/run/job/schema.ts";
import {
  answerInBatchLine,
  assertBatchOutput,
  BatchLines,
  idFieldOf,
} from "../../../src/run/openai-batch/batch-lines.ts";
import { inputPath, jobOf } from "../run-fixture.ts";

const batchInput = { path: inputPath, format: "openai-batch" as const };
const batchOutput = { path: "/run/out.jsonl", format: "openai-batch" as const };
const linesOf = (changes: Partial<JobInput> = {}, seed = 1) =>
  new BatchLines({
    runId: "20260101T000000Z",
    seed,
    createdAt: "2026-01-01T00:00:00.500Z",
    job: jobOf({ input: batchInput, prompt: undefined, output: batchOutput, ...changes }),
  });
const row = { index: 4, row: { custom_id: "a" }, id: "a" };
const letter = (changes: object = {}) =>
  JSON.stringify({
    ...row,
    file: "/in/rows.jsonl",
    line: 5,
    code: "PARAMETER_MISSING",
    message: "it lacks a field (field url) (/in/rows.jsonl:5)",
    ...changes,
  });

describe("BatchLines", () => {
  it("wraps a response body, with ids that are the same each time", () => {
    const body = '{"object":"chat.completion","model":"m","choices":[]}';
    const line = linesOf().answered(row, body);
    expect(linesOf().answered(row, body)).toBe(line);
    const parsed = JSON.parse(line);
    const hash = parsed.id.replace("batch_req_", "");
    expect(hash).toMatch(/^[0-9a-f]{32}$/);
    expect(parsed).toEqual({
      id: `batch_req_${hash}`,
      custom_id: "a",
      response: {
        status_code: 200,
        request_id: `req_${hash}`,
        body: {
          id: `chatcmpl-${hash}`,
          created: 1767225600,
          object: "chat.completion",
          model: "m",
          choices: [],
        },
      },
      error: null,
    });
    const other = JSON.parse(linesOf().answered({ ...row, index: 5 }, '{"object":"list"}'));
    expect(other.id).not.toBe(parsed.id);
    expect(other.response.body).toEqual({ object: "list" });
    // A server begins several batches in one second.
    expect(JSON.parse(linesOf({}, 2).answered(row, body)).id).not.toBe(parsed.id);
  });

  it("writes a failed row with its error twice, and without the place in the input", () => {
    const parsed = JSON.parse(linesOf().failed(letter()));
    const error = { code: "missing_required_parameter", message: "it lacks a field (field url)" };
    expect(parsed).toMatchObject({
      custom_id: "a",
      response: {
        status_code: 400,
        body: { error: { ...error, type: "invalid_request_error", param: null } },
      },
      error,
    });
  });

  it("has the server's status and error, and the field of a faulty request", () => {
    const errorIn = (changes: object) => {
      const { response } = JSON.parse(linesOf().failed(letter(changes)));
      return { status: response.status_code, ...response.body.error };
    };
    const server = { status: 422, message: "too hot", type: "bad", param: "temperature", code: 9 };
    expect(errorIn({ code: "REQUEST_REFUSED", server })).toEqual(server);
    // A page of a proxy in between.
    const message = "the server failed: status 502: <html>";
    expect(errorIn({ code: "SERVER_ERROR", message, server: { status: 502 } })).toEqual({
      ...{ status: 502, message, type: "server_error", param: null, code: "server_error" },
    });
    expect(errorIn({ field: "body.top_p" })).toMatchObject({ status: 400, param: "top_p" });
  });

  it("reads a letter of an earlier version, whose message alone has the server's words", () => {
    const message = "the server refused the request: status 422: too hot (/in/rows.jsonl:5)";
    const { response } = JSON.parse(linesOf().failed(letter({ code: "REQUEST_REFUSED", message })));
    expect(response).toMatchObject({
      status_code: 400,
      body: { error: { message: message.replace(/ \(.*/, ""), code: "invalid_request" } },
    });
  });

  it.each([
    ["JSON_INVALID", "invalid_json_line", 400],
    ["MODEL_DIFFERS", "model_not_found", 404],
    ["PROMPT_TOO_LONG", "context_length_exceeded", 400],
    ["TIMEOUT", "timeout", 504],
    ["SERVER_ERROR", "server_error", 500],
  ])("says %s as %s with status %i", (code, expected, status) => {
    const parsed = JSON.parse(linesOf().failed(letter({ code })));
    expect([parsed.error.code, parsed.response.status_code]).toEqual([expected, status]);
  });

  it("takes custom_id from the line, or what there is where rows have none", () => {
    const idOf = (lines: BatchLines, changes: object) =>
      JSON.parse(lines.failed(letter(changes))).custom_id;
    expect(idOf(linesOf(), { row: "broken", id: null })).toBeNull();
    expect(idOf(linesOf(), { row: {}, id: null })).toBeNull();
    const plain = linesOf({ input: { path: inputPath }, prompt: "Say {{ text }}" });
    expect(idOf(plain, { row: {}, id: 7 })).toBe("7");
    expect(idOf(plain, { row: {}, id: null })).toBe("row-4");
    const long = letter({ row: {}, id: 7 }).replace('"id":7', '"id":9007199254740993');
    expect(JSON.parse(plain.failed(long)).custom_id).toBe("9007199254740993");
  });
});

describe("assertBatchOutput", () => {
  it.each<[string, Partial<JobInput>]>([
    ["prompts", { prompt: undefined, prompts: { a: "x" } }],
    ["prompt.forEach", { prompt: { prompt: "x", forEach: "list" } }],
    ["prompt.turns", { prompt: { type: "sharegpt", turns: "every" } }],
    ["output.include", { output: { ...batchOutput, include: ["usage"] } }],
    ["generation.returnFullText", { generation: { returnFullText: true } }],
    ["output.errorFile", { output: { path: "/run/out", errorFile: "/run/errors.jsonl" } }],
    ["output.modelName", { output: { path: "/run/out", modelName: "chat" } }],
  ])("refuses %s", (field, changes) => {
    const job = jobOf({ output: batchOutput, ...changes });
    const invalid = expect.objectContaining({ code: "JOB_INVALID", place: { field } });
    expect(() => assertBatchOutput(job)).toThrow(invalid);
  });

  it("passes plain jobs", () => {
    expect(() => assertBatchOutput(jobOf())).not.toThrow();
    expect(() => assertBatchOutput(jobOf({ output: batchOutput }))).not.toThrow();
  });
});

describe("a job over batch files", () => {
  it("has no prompt, and its rows are known by custom_id", () => {
    expect(() => jobOf({ input: batchInput })).toThrow(/are requests already/);
    const { input } = jobOf({ input: batchInput, prompt: undefined });
    expect(input.map(idFieldOf)).toEqual(["custom_id"]);
    expect(jobOf().input.map(idFieldOf)).toEqual([undefined]);
    const mixed = () => jobOf({ input: [batchInput, { path: "/in/b.jsonl" }], prompt: undefined });
    expect(mixed).toThrow(/for all inputs of a job or for none/);
  });
});

describe("answerInBatchLine", () => {
  it("finds texts, vectors and errors", () => {
    const body = (inner: object) => ({ response: { body: inner }, error: null });
    const chat = (content: string) => ({ message: { content } });
    expect(answerInBatchLine(body({ choices: [chat("a")] }) as never)).toBe("a");
    const two = { choices: [chat("a"), { text: "b" }] };
    expect(answerInBatchLine(body(two) as never)).toEqual(["a", "b"]);
    expect(answerInBatchLine(body({ data: [1] }) as never)).toEqual([1]);
    expect(answerInBatchLine({ error: { code: "c", message: "m" } })).toBe("c: m");
    expect(answerInBatchLine({})).toBeNull();
  });
});
