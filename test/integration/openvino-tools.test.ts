import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { resolveModel } from "../../src/engines/models/models.ts";
import { openedEngine } from "../../src/engines/opened-engine.ts";
import { openOpenvino } from "../../src/engines/openvino/engine.ts";
import { openvinoModel } from "../../src/engines/openvino/options.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { inLong, isLong } from "../long.ts";
import { engineContext, whyOpenvinoIsMissing } from "./llama-files.ts";
import { hermesTemplate, primed, withTemplate } from "./llama-template.ts";
import { serveFolder, startServe } from "./served.ts";
import {
  callsOf,
  chatsWithTools,
  expectBatchOfCalls,
  expectFormOrCall,
  expectValid,
  sampledCalls,
  weather,
} from "./tool-chats.ts";

const missing = await whyOpenvinoIsMissing();
const ask = chatsWithTools(openvinoModel.parse({ engine: "openvino", name: "model" }));
const environment = { SLUICE_HOME: engineContext.homeDirectory };
const question = { role: "user" as const, content: "How is the weather in Bern?" };

describe("openvino with a template that has tools", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  let engine: Engine;
  /** The one has its own template and one for tools, the other that one alone. */
  let [model, other]: Awaited<ReturnType<typeof withTemplate>>[] = [];
  // Several threads wait for one another where a neighbour computes, many times as long.
  const place = { contextTokens: 768, sequences: 16, cacheGib: 1, threads: 1 };
  beforeAll(async () => {
    if (missing !== undefined) return;
    const name = "smollm2-135m-instruct";
    const { path } = await resolveModel(name, engineContext, { download: false });
    model = await withTemplate(path, hermesTemplate, true);
    if (isLong) other = await withTemplate(path, hermesTemplate);
    const options = openvinoModel.parse({ engine: "openvino", name: model!.path, ...place });
    engine = openedEngine(await openOpenvino(options, engineContext), { callsTools: true });
  });
  afterAll(async () => {
    await engine?.close();
    for (const each of [model, other]) await each?.remove();
  });

  it("calls a tool with valid arguments where it must, whatever is sampled", async () => {
    const forced = { temperature: 1.2, parallel_tool_calls: false, tool_choice: "required" };
    const named = { ...forced, tool_choice: { type: "function", function: { name: "weather" } } };
    const seeds = Array.from({ length: sampledCalls }, (_, seed) => seed);
    const responses = await Promise.all(
      seeds.map((seed) => ask(engine, { ...(seed % 4 === 0 ? forced : named), seed })),
    );
    for (const [seed, response] of responses.entries()) {
      const calls = callsOf(response);
      expect(calls).toHaveLength(1);
      expectValid(calls[0]!);
      if (seed % 4 !== 0) expect(calls[0]!.name).toBe("weather");
      expect(response.answers[0]!.text).toBe("");
    }
    const different = new Set(responses.map((response) => JSON.stringify(callsOf(response))));
    expect(different.size).toBeGreaterThan(3);
  });

  it("has a template of its own for tools, where the file names one", async () => {
    const plain = { tool_choice: "none", max_tokens: 1 };
    const [bare, greeted] = await Promise.all([
      ask(engine, { ...plain, messages: [question] }),
      ask(engine, { ...plain, messages: [{ role: "system", content: "Hi." }, question] }),
    ]);
    // The model's own template begins with a long system message where a conversation has none.
    expect(bare.usage.promptTokens).toBeGreaterThan(greeted.usage.promptTokens);
  });

  it("calls a tool where it may, and tells the text before it alone", async () => {
    const told: string[] = [];
    const response = await ask(engine, { messages: primed }, { tell: (text) => told.push(text) });
    expect(response.answers[0]).toMatchObject({ text: "I look it up.", finishReason: "stop" });
    expect(callsOf(response).map(({ name }) => name)).toContain("weather");
    for (const call of callsOf(response)) expectValid(call);
    expect(told.join("")).toBe("I look it up.");
    expect(told.length).toBeGreaterThan(2);
    const again = await ask(engine, { messages: primed });
    expect(again.answers[0]!.toolCalls).toEqual(response.answers[0]!.toolCalls);
  });

  it("answers text where it may call and does not, also with results of tools", async () => {
    const results = [
      ...primed,
      { role: "assistant", content: "", tool_calls: [{ ...callOf("Bern"), id: "c3" }] },
      { role: "tool", tool_call_id: "c3", content: "Sunny, 21 degrees." },
    ];
    const [hello, plain, told] = await Promise.all([
      ask(engine, { messages: [{ role: "user", content: "Hello!" }] }),
      ask(engine, { messages: [{ role: "user", content: "Hello!" }], tool_choice: "none" }),
      ask(engine, { messages: results as unknown as JsonObject[], tool_choice: "none" }),
    ]);
    for (const response of [hello!, plain!, told!]) {
      expect(callsOf(response)).toEqual([]);
      expect(response.answers[0]!.text).not.toBe("");
    }
    expect(hello!.usage.promptTokens).toBeGreaterThan(plain!.usage.promptTokens);
  });

  inLong?.(
    "calls one tool where calls may not be parallel, and gives several answers",
    async () => {
      const [one, several] = await Promise.all([
        ask(engine, { tool_choice: "required", parallel_tool_calls: false }),
        ask(engine, { tool_choice: "required", temperature: 1, n: 3 }),
      ]);
      expect(callsOf(one!)).toHaveLength(1);
      const calls = several!.answers.map(({ toolCalls = [] }) => toolCalls);
      expect(calls).toHaveLength(3);
      for (const each of calls) expect(each.length).toBeGreaterThan(0);
      for (const call of callsOf(several!)) expectValid(call);
      const ids = calls.flat().map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
    },
  );

  it("ends text at a stop text, calls by themselves, and both at the limit of tokens", async () => {
    const asked = { messages: primed };
    const [stopped, within, short] = await Promise.all([
      ask(engine, { ...asked, stop: ["up"] }),
      ask(engine, { ...asked, stop: ["weather", "city"] }),
      ask(engine, { ...asked, max_tokens: 12 }),
    ]);
    expect(stopped!.answers).toMatchObject([{ text: "I look it ", finishReason: "stop" }]);
    expect(callsOf(stopped!)).toEqual([]);
    expect(stopped!.usage.completionTokens).toBeLessThan(8);
    expect(callsOf(within!).map(({ name }) => name)).toContain("weather");
    expect(short!.answers).toMatchObject([{ finishReason: "length", tokens: 12 }]);
    expect(callsOf(short!)).toEqual([]);
    expect(short!.answers[0]!.text).toMatch(/^I look it up\..*<tool_call>/s);
  });

  inLong?.("has the form that was asked for, or calls a tool", () => expectFormOrCall(ask, engine));

  /** A server's clients and batch files go the way that they go with llama. */
  inLong?.("serves calls to OpenAI's own client", async () => {
    const own = { engine: "openvino" as const, name: other!.path, ...place, sequences: 4 };
    const models = { tools: { model: own, generation: { temperature: 0, maxNewTokens: 80 } } };
    const server = await startServe(serveFolder(), { models }, environment);
    const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 });
    const tools = [weather] as OpenAI.ChatCompletionTool[];
    const messages = primed as OpenAI.ChatCompletionMessageParam[];
    const asked = { model: "tools", tools, temperature: 0 };
    const whole = await client.chat.completions.create({ ...asked, messages });
    expect(whole.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { content: "I look it up.", tool_calls: [{ type: "function" }] },
    });
    const stream = client.chat.completions.stream({ ...asked, messages });
    const pieces: string[] = [];
    stream.on("content", (piece) => void pieces.push(piece));
    const streamed = (await stream.finalChatCompletion()).choices[0]!;
    const functions = ({ message }: OpenAI.ChatCompletion.Choice) =>
      message.tool_calls!.map((call) => call.type === "function" && call.function);
    expect(streamed.finish_reason).toBe("tool_calls");
    expect(functions(streamed)).toMatchObject(functions(whole.choices[0]!) as object[]);
    expect(pieces.join("")).toBe("I look it up.");
    expect(pieces.length).toBeGreaterThan(2);
  });

  inLong?.("calls tools for the lines of a batch file, and answers its other lines", () =>
    expectBatchOfCalls(
      ["--model", `openvino:${other!.path}`, "--model.cacheGib", "1"],
      environment,
    ),
  );
});

function callOf(city: string) {
  const given = JSON.stringify({ city, unit: "celsius" });
  return { type: "function", function: { name: "weather", arguments: given } };
}
