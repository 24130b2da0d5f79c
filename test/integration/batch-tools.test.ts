import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";

const weather = { type: "function", function: { name: "weather", parameters: { type: "object" } } };
const call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"a": 1.0}' } };

/** A server that calls the first tool of a chat, and keeps what it was asked. */
async function callingServer() {
  const asked: JsonObject[] = [];
  const server = createServer(async (request, response) => {
    if (request.method !== "POST") return response.end('{"data": [{"id": "m"}]}');
    const body = (await json(request)) as JsonObject;
    asked.push(body);
    const message = body.tools
      ? { role: "assistant", content: null, tool_calls: [call] }
      : { role: "assistant", content: "It rains." };
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    const finish_reason = body.tools ? "tool_calls" : "stop";
    const choices = [{ index: 0, message, finish_reason }];
    return response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ object: "chat.completion", model: "m", choices, usage }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { asked, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

const line = (customId: string, more: JsonObject = {}) => ({
  custom_id: customId,
  ...{ method: "POST", url: "/v1/chat/completions" },
  body: { model: "m", messages: [{ role: "user", content: "Rain?" }], temperature: 0, ...more },
});

it("tools of a batch line reach the server, and its calls come back as it gave them", async () => {
  const { asked, baseUrl } = await callingServer();
  const folder = scratchFolder();
  const choice = { type: "function", function: { name: "weather" } };
  const requests = [
    line("plain"),
    line("tools", { tools: [weather], tool_choice: choice, parallel_tool_calls: false }),
    line("again", { tools: [weather], tool_choice: choice, parallel_tool_calls: false }),
    line("bad", { tools: [{ type: "function" }] }),
  ];
  const text = requests.map((request) => `${JSON.stringify(request)}\n`).join("");
  writeFileSync(join(folder, "in.jsonl"), text);
  const answers = (name: string) => {
    const lines = readFileSync(join(folder, name), "utf8").trim().split("\n");
    return lines.map((each) => JSON.parse(each));
  };
  const model = ["--model", "openai:m", "--base-url", baseUrl];
  await runSluice(["run-batch", "-i", "in.jsonl", "-o", "out.jsonl", ...model], folder);
  const [plain, tools, again, bad] = answers("out.jsonl");
  expect(plain.response.body.choices[0].message).toEqual({
    ...{ role: "assistant", content: "It rains.", refusal: null },
  });
  for (const { response } of [tools, again]) {
    expect(response.body.choices[0]).toMatchObject({
      message: { role: "assistant", content: null, tool_calls: [call] },
      finish_reason: "tool_calls",
    });
  }
  expect(bad.error.message).toContain("body.tools[0]");
  const sent = asked.filter((body) => body.tools !== undefined);
  expect(sent[0]).toMatchObject({
    ...{ tools: [weather], tool_choice: choice, parallel_tool_calls: false },
  });
  // The same question with tools is another one, and the same again is asked once.
  expect(asked.length).toBe(2);
  const fake = ["--model", "fake", "--served-model-name", "m"];
  await runSluice(["run-batch", "-i", "in.jsonl", "-o", "fake.jsonl", ...fake], folder);
  const [, called] = answers("fake.jsonl");
  expect(called.response.body.choices[0].message.tool_calls).toMatchObject([
    { type: "function", function: { name: "weather", arguments: "{}" } },
  ]);
});
