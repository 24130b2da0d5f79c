import { describe, expect, it } from "vitest";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import {
  fakeVector,
  type ReceivedRequest,
  type ServerBehaviour,
} from "../../../src/testing/fake-server.ts";
import { chatRequest, rejectionOf } from "../engine-context.ts";
import { never, openOver, serve } from "./openai-engine.ts";

function embedding(index: number, prompt: string): InferenceRequest {
  const { messages: _, ...request } = chatRequest(index);
  return { ...request, prompt, embed: true };
}

const texts = (count: number) => Array.from({ length: count }, (_, at) => `text number ${at}`);
const embedAll = (engine: ReturnType<typeof openOver>, all: readonly string[]) =>
  all.map((text, at) => engine.infer(embedding(at, text), never));

describe("vectors", () => {
  it("are those of their texts, several of them by one request", async () => {
    const sent: number[] = [];
    const server = await serve({
      behave: ({ json }) => void sent.push((json!.input as string[]).length),
    });
    const engine = openOver([server], { maxInFlight: 2, maxBatchRows: 16 });
    const responses = await Promise.all(embedAll(engine, texts(100)));
    for (const [at, { answers }] of responses.entries()) {
      expect(answers).toEqual([
        { text: "", value: fakeVector(`text number ${at}`), finishReason: "stop", tokens: 0 },
      ]);
    }
    expect(sent.reduce((sum, count) => sum + count, 0)).toBe(100);
    expect(sent.length).toBeLessThan(10);
    const tokens = responses.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
    expect(tokens).toBe(300);
    // The executor is to bring enough for the next requests too.
    expect(engine.capacity).toBe(2 * 2 * 16);
  });

  it("go over all endpoints", async () => {
    const servers = [await serve({ delayMs: 2 }), await serve({ delayMs: 2 })];
    const engine = openOver(servers, { maxInFlight: 2, maxBatchRows: 4 });
    await Promise.all(embedAll(engine, texts(200)));
    for (const { received } of servers) expect(received).toBeGreaterThan(10);
  });

  it("of a text that is refused fail alone", async () => {
    const behave = ({ body }: ReceivedRequest): ServerBehaviour | undefined =>
      body.includes("poison") ? { kind: "status", status: 400, body: "not that" } : undefined;
    const server = await serve({ behave });
    const engine = openOver([server], { maxInFlight: 1, maxBatchRows: 16 });
    const all = texts(20).with(7, "poison");
    const errors = await Promise.all(embedAll(engine, all).map((it) => rejectionOf(it)));
    expect(errors[7]).toMatchObject({ code: "REQUEST_REFUSED", retryable: false });
    expect(errors.filter((error) => error !== undefined)).toHaveLength(1);
  });

  it.each<[string, ServerBehaviour]>([
    ["RESPONSE_MALFORMED", { kind: "json", body: { data: [] } }],
    ["RESPONSE_MALFORMED", { kind: "json", body: { data: [{ embedding: "AAAA" }] } }],
    ["RESPONSE_MALFORMED", { kind: "json", body: { data: [{ embedding: [1, null] }] } }],
    [
      "RESPONSE_MALFORMED",
      { kind: "status", status: 200, body: '{"data":[{"embedding":[1e400]}]}' },
    ],
    ["RESPONSE_MALFORMED", { kind: "json", body: { data: [{ index: 3, embedding: [1] }] } }],
    ["RESPONSE_MALFORMED", { kind: "html" }],
    ["SERVER_ERROR", { kind: "status", status: 500 }],
  ])("that did not come are %s, to be asked again: %j", async (code, behaviour) => {
    const server = await serve({ behave: () => behaviour });
    const engine = openOver([server], { maxInFlight: 1 });
    const error = await rejectionOf(engine.infer(embedding(0, "one"), never));
    expect(error).toMatchObject({ code, retryable: true });
    expect(server.received).toBe(1);
  });

  it("carry the fields of the job, and end the run where the key is refused", async () => {
    const asked: ReceivedRequest[] = [];
    const server = await serve({ behave: (request) => void asked.push(request) });
    const engine = openOver([server], { maxInFlight: 1, extraBody: { dimensions: 4 } });
    await engine.infer(embedding(0, "one"), never);
    expect(asked[0]!.path).toBe("/v1/embeddings");
    expect(asked[0]!.json).toEqual({ model: "m", dimensions: 4, input: ["one"] });
    const closed = await serve({ behave: () => ({ kind: "status", status: 401 }) });
    const refused = openOver([closed], { maxInFlight: 1 });
    const error = await rejectionOf(refused.infer(embedding(0, "one"), never));
    expect(error).toMatchObject({ code: "AUTHENTICATION_FAILED", scope: "run" });
  });
});
