import { HumanMessage, SystemMessage, type ToolMessage } from "@langchain/core/messages";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import type { JsonObject } from "../../src/foundation/json.ts";
import { startFakeServer } from "../../src/testing/fake-server.ts";
import { engineContext, findLlamaFiles } from "./llama-files.ts";
import { servedOnce, serveFolder, startServe } from "./served.ts";

const files = await findLlamaFiles();
beforeEach((context) => context.skip(files.missing !== undefined, files.missing));

const name = files.missing ?? files.modelPath;
const embedded = servedOnce(
  // Threads wait for each other where the tests beside this one compute.
  { models: { m: { engine: "llama", name, threads: 1 } } },
  { SLUICE_HOME: engineContext.homeDirectory },
);

/** A client of LangChain for a server with the embedded model. */
async function chatEmbedded() {
  const { baseUrl } = await embedded();
  const configuration = { baseURL: baseUrl };
  const common = { apiKey: "none", maxRetries: 0, configuration };
  const chat = new ChatOpenAI({ model: "m", temperature: 0, maxTokens: 40, ...common });
  return { chat, common };
}

describe("sluice serve, with LangChain", () => {
  it("answers chains whole, as a stream and in batches, with usage", async () => {
    const { chat } = await chatEmbedded();
    const asked = [new SystemMessage("Answer in one word."), new HumanMessage("Name a river.")];
    const whole = await chat.invoke(asked);
    expect(whole.text).not.toBe("");
    expect(whole.usage_metadata!.output_tokens).toBeGreaterThan(0);
    expect(whole.response_metadata).toMatchObject({ model_name: "m" });
    const pieces: string[] = [];
    let tokens = 0;
    for await (const piece of await chat.stream(asked)) {
      pieces.push(piece.text);
      tokens += piece.usage_metadata?.output_tokens ?? 0;
    }
    expect(pieces.join("")).toBe(whole.text);
    expect(pieces.length).toBeGreaterThan(3);
    expect(tokens).toBe(whole.usage_metadata!.output_tokens);
    const chain = ChatPromptTemplate.fromTemplate("Name a {what}.").pipe(chat);
    const answers = await chain.batch([{ what: "tree" }, { what: "bird" }]);
    expect(answers.map(({ text }) => text.length > 0)).toEqual([true, true]);
  });

  it("gives objects of a schema, and vectors", async () => {
    const { chat, common } = await chatEmbedded();
    const river = z.object({ name: z.string().max(20), lengthKm: z.int().min(1).max(9999) });
    const structured = chat.withStructuredOutput(river, { name: "river", method: "jsonSchema" });
    const found = await structured.invoke("Describe a river as JSON.");
    expect(river.safeParse(found).success).toBe(true);
    const embeddings = new OpenAIEmbeddings({ model: "m", ...common });
    const [one, other] = await embeddings.embedDocuments(["a cat", "income tax"]);
    expect(one!.length).toBeGreaterThan(100);
    expect(await embeddings.embedQuery("a cat")).toEqual(one);
    expect(other).not.toEqual(one);
  });

  it("calls tools and goes on, where the engine behind calls tools", async () => {
    const upstream = await startFakeServer({
      behave: ({ path, json }) => {
        if (!path.endsWith("/chat/completions")) return undefined;
        const last = (json!.messages as JsonObject[]).at(-1)!;
        if (last.role === "tool") return { kind: "answer", text: `It is ${String(last.content)}` };
        const called = { name: "weather", arguments: '{"city":"Bern"}' };
        return {
          kind: "answer",
          toolCalls: [{ id: "call_1", type: "function", function: called }],
        };
      },
    });
    onTestFinished(() => upstream.close());
    const models = { m: { engine: "openai" as const, name: "up", baseUrl: upstream.baseUrl } };
    const { baseUrl } = await startServe(serveFolder(), { models });
    const configuration = { baseURL: baseUrl };
    const chat = new ChatOpenAI({ model: "m", apiKey: "none", maxRetries: 0, configuration });
    const schema = z.object({ city: z.string() });
    const weather = tool(async ({ city }) => `sunny in ${city}`, {
      ...{ name: "weather", description: "The weather of a city", schema },
    });
    const withTools = chat.bindTools([weather], { tool_choice: "auto", strict: true });
    const question = new HumanMessage("Rain in Bern?");
    const asked = await withTools.invoke([question]);
    expect(asked.tool_calls).toMatchObject([{ name: "weather", args: { city: "Bern" } }]);
    const result: ToolMessage = await weather.invoke(asked.tool_calls![0]!);
    const end = await withTools.invoke([question, asked, result]);
    expect(end.text).toBe("It is sunny in Bern");
    const stream = await withTools.stream([question]);
    let gathered = "";
    for await (const { tool_call_chunks: chunks = [] } of stream) {
      gathered += chunks.map(({ args }) => args).join("");
    }
    expect(JSON.parse(gathered)).toEqual({ city: "Bern" });
    // A schema by way of a tool, as LangChain asks older models.
    const byTool = chat.withStructuredOutput(schema, {
      name: "weather",
      method: "functionCalling",
    });
    expect(await byTool.invoke("Rain in Bern?")).toEqual({ city: "Bern" });
  });

  it("refuses by name, in a form that LangChain reads", async () => {
    const { chat } = await chatEmbedded();
    const schema = { name: "weather", description: "The weather", schema: z.object({}) };
    const weather = tool(async () => "sunny", schema);
    const refused = await chat
      .bindTools([weather])
      .invoke("Rain?")
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 400, type: "invalid_request_error", param: "tools" });
  });
});
