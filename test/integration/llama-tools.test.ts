import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openLlamaFrom } from "../../src/engines/llama/engine.ts";
import { openedEngine } from "../../src/engines/opened-engine.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { hermesTemplate, primed, withTemplate } from "./llama-template.ts";
import {
  callsOf,
  chatsWithTools,
  expectFormOrCall,
  expectValid,
  sampledCalls,
} from "./tool-chats.ts";

const files = await findLlamaFiles();
const ask = chatsWithTools({ engine: "llama", name: "model" });
const question = { role: "user", content: "How is the weather in Bern?" };

describe("llama with a template that has tools", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let engine: Engine;
  let model: Awaited<ReturnType<typeof withTemplate>>;
  beforeAll(async () => {
    if (files.missing !== undefined) return;
    model = await withTemplate(files.modelPath, hermesTemplate, true);
    const { modulePath } = files;
    const shape = { sequences: 16, contextTokens: 768, threads: 1 };
    const options = { modulePath, modelPath: model.path, ...shape };
    engine = openedEngine(await openLlamaFrom(options, engineContext), { callsTools: true });
  });
  afterAll(async () => {
    await engine?.close();
    await model?.remove();
  });

  it("calls a tool with valid arguments where it must, whatever is sampled", async () => {
    const seeds = Array.from({ length: sampledCalls }, (_, seed) => seed);
    const forced = { temperature: 1.2, parallel_tool_calls: false, tool_choice: "required" };
    const named = { ...forced, tool_choice: { type: "function", function: { name: "weather" } } };
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
    expect(
      new Set(responses.map((response) => JSON.stringify(callsOf(response)))).size,
    ).toBeGreaterThan(3);
  });

  it("has a template of its own for tools, where the file names one", async () => {
    const plain = { tool_choice: "none", max_tokens: 1 };
    const greeting = [{ role: "system", content: "Hi." }, question];
    const [bare, greeted] = await Promise.all([
      ask(engine, { ...plain, messages: [question] }),
      ask(engine, { ...plain, messages: greeting }),
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
    expect(told.length).toBeGreaterThan(1);
    const again = await ask(engine, { messages: primed });
    expect(again.answers[0]!.toolCalls![0]).toEqual(response.answers[0]!.toolCalls![0]);
  });

  it("calls one tool where calls may not be parallel, and none where told so", async () => {
    const [shown, several, one, none] = await Promise.all([
      ask(engine, { messages: primed, max_tokens: 1 }),
      ask(engine, { tool_choice: "required" }),
      ask(engine, { tool_choice: "required", parallel_tool_calls: false }),
      ask(engine, { messages: primed, tool_choice: "none" }),
    ]);
    expect(callsOf(several!).length).toBeGreaterThan(0);
    const ids = several!.answers[0]!.toolCalls!.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{9}$/);
    expect(callsOf(one!)).toHaveLength(1);
    expect(callsOf(none!)).toEqual([]);
    expect(none!.usage.promptTokens).toBeLessThan(shown!.usage.promptTokens);
  });

  it("gives several answers, each with its own calls", async () => {
    const { answers } = await ask(engine, { tool_choice: "required", temperature: 1, n: 3 });
    expect(answers).toHaveLength(3);
    const calls = answers.map(({ toolCalls = [] }) => toolCalls);
    for (const each of calls) expect(each.length).toBeGreaterThan(0);
    const ids = calls.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("has the form that was asked for, or calls a tool", () => expectFormOrCall(ask, engine));

  it("ends with its signal in the middle of a call, and goes on with others", async () => {
    const leaving = new AbortController();
    const tell = () => leaving.abort(new Error("left"));
    const left = ask(engine, { messages: primed }, { signal: leaving.signal, tell });
    await expect(left).rejects.toThrow("left");
    expect(callsOf(await ask(engine, { tool_choice: "required" })).length).toBeGreaterThan(0);
  });
});
