import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { describe, expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import {
  type ReceivedRequest,
  type ServerBehaviour,
  startFakeServer,
} from "../../src/testing/fake-server.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { serveFolder, startServe } from "./served.ts";

const call = {
  id: "call_1",
  type: "function" as const,
  function: { name: "weather", arguments: '{"city":"Bern"}' },
};

/** Calls the tool that it is given; after that, says what the tool returned. */
function behave({ json = {} }: ReceivedRequest): ServerBehaviour {
  const last = (json.messages as JsonObject[]).at(-1)!;
  if (last.role === "tool") return { kind: "answer", text: `It is ${last.content}` };
  if (json.tools) return { kind: "answer", toolCalls: [call] };
  return { kind: "answer", text: JSON.stringify(last.content) };
}

async function upstream() {
  const received: JsonObject[] = [];
  const server = await startFakeServer({
    behave: (request) => {
      if (!request.path.endsWith("/chat/completions")) return undefined;
      received.push(request.json!);
      return behave(request);
    },
  });
  onTestFinished(() => server.close());
  return { baseUrl: server.baseUrl, received };
}

async function serve() {
  const { baseUrl, received } = await upstream();
  const folder = serveFolder();
  writeFileSync(
    join(folder, "predict.mjs"),
    "export const predict = (batch) => batch.map(() => 'text');",
  );
  const server = await startServe(folder, {
    models: {
      m: { engine: "openai", name: "up", baseUrl },
      text: { engine: "predictor", module: "./predict.mjs" },
    },
  });
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 });
  return { client, received };
}

const weather = {
  type: "function" as const,
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } } },
    parse: (text: string) => JSON.parse(text) as { city: string },
    function: ({ city }: { city: string }) => `sunny in ${city}`,
  },
};
const question = { role: "user" as const, content: "How is the weather in Bern?" };
const asked = { model: "m", messages: [question], tools: [weather] };
const conversation = [
  question,
  { role: "assistant" as const, content: null, tool_calls: [call] },
  { role: "tool" as const, tool_call_id: "call_1", content: "sunny in Bern" },
];

describe("sluice serve, with tools and parts in chats", () => {
  it("calls tools and goes on with what they returned, streamed or not", async () => {
    const { client, received } = await serve();
    const whole = client.chat.completions.runTools(asked);
    expect(await whole.finalContent()).toBe("It is sunny in Bern");
    const streamed = client.chat.completions.runTools({ ...asked, stream: true });
    expect(await streamed.finalContent()).toBe("It is sunny in Bern");
    expect(received).toHaveLength(4);
    for (const { messages } of [received[1]!, received[3]!]) expect(messages).toEqual(conversation);

    const { parse: _parse, function: _function, ...named } = weather.function;
    const tools = [{ type: "function" as const, function: named }];
    const stream = await client.chat.completions.create({ ...asked, tools, stream: true });
    const choices = [];
    for await (const chunk of stream) choices.push(...chunk.choices);
    const [, calls, end] = choices;
    expect(calls!.delta.tool_calls).toEqual([{ index: 0, ...call }]);
    expect([calls!.finish_reason, end]).toMatchObject([
      null,
      { delta: {}, finish_reason: "tool_calls" },
    ]);
    expect(choices).toHaveLength(3);
  });

  it("hands images and sound to a server that takes them", async () => {
    const { client, received } = await serve();
    const image = { url: "data:image/png;base64,AA==", detail: "low" as const };
    const content = [
      { type: "text" as const, text: "What is it?" },
      { type: "image_url" as const, image_url: image },
      { type: "input_audio" as const, input_audio: { data: "AA==", format: "wav" as const } },
    ];
    const { choices } = await client.chat.completions.create({
      ...{ model: "m", messages: [{ role: "user", content }] },
    });
    expect(JSON.parse(choices[0]!.message.content!)).toEqual(content);
    expect(received).toHaveLength(1);
  });

  it("refuses by name what the engine of a model does not take", async () => {
    const { client } = await serve();
    const parts = [{ type: "image_url" as const, image_url: { url: "https://127.0.0.1/a.png" } }];
    const refusals = await Promise.all(
      [conversation, [{ role: "user" as const, content: parts }]].map((messages) =>
        client.chat.completions.create({ model: "text", messages }).catch((error) => error),
      ),
    );
    expect(refusals).toMatchObject([
      { status: 400, param: "messages[1].tool_calls" },
      { status: 400, param: "messages[0].content[0].type" },
    ]);
  });

  it("takes the same conversation from a batch file", async () => {
    const { baseUrl, received } = await upstream();
    const folder = serveFolder();
    const line = { custom_id: "1", method: "POST", url: "/v1/chat/completions" };
    const body = { model: "up", messages: conversation };
    writeFileSync(join(folder, "in.jsonl"), `${JSON.stringify({ ...line, body })}\n`);
    const model = ["--model", "openai:up", "--base-url", baseUrl];
    const args = ["run-batch", "-i", "in.jsonl", "-o", "out.jsonl", ...model, "--quiet"];
    expect(await runSluice(args, folder)).toMatchObject({ code: 0 });
    expect(readFileSync(join(folder, "out.jsonl"), "utf8")).toContain("It is sunny in Bern");
    expect(received.at(-1)!.messages).toEqual(conversation);
  });
});
