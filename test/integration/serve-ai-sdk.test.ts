import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embed, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { describe, expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { fakeVector, startFakeServer } from "../../src/testing/fake-server.ts";
import { serveFolder, startServe } from "./served.ts";

async function serve() {
  const upstream = await startFakeServer({
    behave: ({ path, json }) => {
      if (!path.endsWith("/chat/completions")) return undefined;
      const last = (json!.messages as JsonObject[]).at(-1)!;
      if (last.role === "tool") return { kind: "answer", text: `It is ${last.content}` };
      if (json!.tools === undefined) return undefined;
      const called = { name: "weather", arguments: '{"city":"Bern"}' };
      const toolCalls = [{ id: "call_1", type: "function", function: called }];
      return { kind: "answer", toolCalls };
    },
  });
  onTestFinished(() => upstream.close());
  const { baseUrl } = upstream;
  const server = await startServe(serveFolder(), {
    models: { fake: { engine: "fake" }, m: { engine: "openai", name: "up", baseUrl } },
  });
  return createOpenAICompatible({ name: "sluice", baseURL: server.baseUrl });
}

const weather = tool({
  description: "The weather of a city",
  inputSchema: jsonSchema<{ city: string }>({
    type: "object",
    properties: { city: { type: "string" } },
  }),
  execute: async ({ city }) => `"sunny in ${city}"`,
});

describe("sluice serve, with the AI SDK", () => {
  it("answers whole and as a stream, with usage", async () => {
    const provider = await serve();
    const asked = { model: provider("fake"), prompt: "Tell me of rivers", seed: 7 };
    const whole = await generateText(asked);
    expect(whole.text).not.toBe("");
    expect(whole.finishReason).toBe("stop");
    const streamed = streamText(asked);
    const pieces: string[] = [];
    for await (const piece of streamed.textStream) pieces.push(piece);
    expect(pieces.join("")).toBe(whole.text);
    expect(pieces.length).toBeGreaterThan(2);
    expect(await streamed.finishReason).toBe("stop");
    expect(whole.usage.totalTokens).toBeGreaterThan(0);
  });

  it("calls tools and goes on, and gives vectors", async () => {
    const provider = await serve();
    const asked = {
      ...{ model: provider("m"), prompt: "Rain in Bern?", tools: { weather } },
      stopWhen: stepCountIs(3),
    };
    const whole = await generateText(asked);
    expect(whole.text).toBe('It is "sunny in Bern"');
    expect(whole.steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    const streamed = streamText(asked);
    expect(await streamed.text).toBe('It is "sunny in Bern"');
    const { embedding } = await embed({ model: provider.embeddingModel("m"), value: "Bern" });
    expect(embedding).toHaveLength(fakeVector("Bern").length);
  });

  it("tells a refusal with its status and its words", async () => {
    const provider = await serve();
    const asked = { model: provider("none"), prompt: "Hello", maxRetries: 0 };
    const error: unknown = await generateText(asked).catch((thrown: unknown) => thrown);
    expect(APICallError.isInstance(error) && error.statusCode).toBe(404);
    expect(String(error)).toContain("none");
  });
});
