import { readFileSync } from "node:fs";
import { delimiter } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";
import { inLong } from "../long.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { hermesTemplate, primed, withTemplate } from "./llama-template.ts";
import { type Served, serveFolder, startServe } from "./served.ts";
import { expectBatchOfCalls } from "./tool-chats.ts";

const files = await findLlamaFiles();
const environment = { SLUICE_HOME: engineContext.homeDirectory };

const parameters = {
  ...{ type: "object" as const, properties: { city: { type: "string" as const, maxLength: 12 } } },
  ...{ required: ["city"], additionalProperties: false },
};
const weather = {
  type: "function" as const,
  function: { name: "weather", description: "The weather of a city", parameters },
};
const question = { role: "user" as const, content: "How is the weather in Bern?" };
const messages = primed as OpenAI.ChatCompletionMessageParam[];

describe("tools of engine llama", () => {
  beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

  let model: Awaited<ReturnType<typeof withTemplate>>;
  beforeAll(async () => {
    if (files.missing === undefined) model = await withTemplate(files.modelPath, hermesTemplate);
  });
  afterAll(() => model?.remove());

  const serve = async () => {
    const llama = { engine: "llama" as const, threads: 1 };
    const own = { ...llama, name: model.path, sequences: 4, contextTokens: 768 };
    const plain = { ...llama, name: "smollm2-135m-instruct", contextTokens: 256 };
    const generation = { temperature: 0, maxNewTokens: 80 };
    const models = { tools: { model: own, generation }, plain: { ...plain, sequences: 1 } };
    const PATH = `${standInDriver(threeGpus)}${delimiter}${process.env.PATH}`;
    const server = await startServe(serveFolder(), { models }, { ...environment, PATH });
    return {
      server,
      client: new OpenAI({ baseURL: server.baseUrl, apiKey: "none", maxRetries: 0 }),
    };
  };

  it("are called by OpenAI's own client and the AI SDK, and refused by name", async () => {
    const { server, client } = await serve();
    await expectCalls(server, client);
    await expectRefusals(client);
    await expectNoGpu(server);
  });

  /** A model that uses no GPU beside one is warned of and described so. */
  async function expectNoGpu(server: Served): Promise<void> {
    expect(server.log()).toContain("the model computes on the CPU, not on cuda:0,1,2");
    const reply = await fetch(`${server.addresses.management}/models/plain`);
    const [described] = (await reply.json()) as [{ workers: [{ pid: number }] }];
    expect(described).toMatchObject({ deviceType: "cpu", workers: [{ gpu: false }] });
    const { pid } = described.workers[0];
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).toContain("host/main");
  }

  /** Streamed or not. */
  async function expectCalls(server: Served, client: OpenAI): Promise<void> {
    const asked = { model: "tools", tools: [weather], temperature: 0 };
    const whole = await client.chat.completions.create({ ...asked, messages });
    const [choice] = whole.choices;
    expect(choice).toMatchObject({
      finish_reason: "tool_calls",
      message: { content: "I look it up.", tool_calls: [{ type: "function" }] },
    });
    const stream = client.chat.completions.stream({ ...asked, messages });
    const pieces: string[] = [];
    stream.on("content", (piece) => void pieces.push(piece));
    const streamed = await stream.finalChatCompletion();
    // Each call of the server has its own ids.
    const functions = choice!.message.tool_calls!.map((call) => ({ ...call, id: /^\w{9}$/ }));
    expect(streamed.choices[0]!.message).toMatchObject({
      content: "I look it up.",
      tool_calls: functions.map((call) => ({ ...call, id: expect.stringMatching(call.id) })),
    });
    expect(pieces.join("")).toBe("I look it up.");
    expect(pieces.length).toBeGreaterThan(1);

    const results: string[] = [];
    const runner = client.chat.completions.runTools(
      {
        ...{ model: "tools", messages: [question], temperature: 0 },
        tools: [
          {
            type: "function",
            function: {
              ...weather.function,
              parse: (text: string) => JSON.parse(text) as { city: string },
              function: ({ city }: { city: string }) => {
                results.push(city);
                return "sunny";
              },
            },
          },
        ],
        tool_choice: { type: "function", function: { name: "weather" } },
      },
      { maxChatCompletions: 2 },
    );
    await runner.done().catch(() => {});
    expect(results.length).toBeGreaterThan(0);

    const provider = createOpenAICompatible({ name: "sluice", baseURL: server.baseUrl });
    const given = {
      ...{ model: provider("tools"), prompt: question.content, toolChoice: "required" as const },
      tools: {
        weather: tool({
          description: "The weather of a city",
          inputSchema: jsonSchema<{ city: string }>(parameters),
        }),
      },
    };
    const generated = await generateText(given);
    expect(generated.finishReason).toBe("tool-calls");
    const streamedCalls = await streamText(given).toolCalls;
    for (const calls of [generated.toolCalls, streamedCalls]) {
      expect(calls.length).toBeGreaterThan(0);
      for (const { toolName, input } of calls) {
        expect([toolName, typeof (input as { city: string }).city]).toEqual(["weather", "string"]);
      }
    }
  }

  /** With status 400, where the model's template has none. */
  async function expectRefusals(client: OpenAI): Promise<void> {
    const refused = (body: object) =>
      client.chat.completions
        .create({ model: "plain", messages: [question], ...body } as never)
        .catch((error: unknown) => error);
    expect(await refused({ tools: [weather] })).toMatchObject({
      ...{ status: 400, param: "tools" },
      message: expect.stringContaining("chat template has no tools"),
    });
    const chosen = { type: "function", function: { name: "other" } };
    expect(await refused({ tools: [weather], tool_choice: chosen })).toMatchObject({
      ...{ status: 400, param: "tool_choice.function.name" },
    });
    expect(await refused({ messages })).toMatchObject({ status: 400, param: "messages[1]" });
    const { choices } = await client.chat.completions.create({
      ...{ model: "plain", messages: [question], max_tokens: 4 },
    });
    expect(choices[0]!.message.content).not.toBe("");
  }

  /** Batch files with tools are in `batch-tools.test.ts`, on another server. */
  inLong?.("are called by the lines of a batch file, and its other lines are answered", () =>
    expectBatchOfCalls(["--model", `llama:${model.path}`, "--model.sequences", "4"], environment),
  );
});
