import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import {
  greedyParameters,
  type InferenceResponse,
  type OnDelta,
} from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { requestPromptSet } from "../../src/run/plan/job-prompts.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { primed } from "./llama-template.ts";
import { serveFolder } from "./served.ts";

const never = new AbortController().signal;

/** Sampled answers that must be calls; more in `npm run test:long`. */
export const sampledCalls = Number(process.env.TEST_SLUICE_CALLS ?? 8);

export const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string", maxLength: 12 },
        unit: { enum: ["celsius", "fahrenheit"] },
        days: { type: "integer", minimum: 0 },
      },
      required: ["city", "unit"],
    },
  },
};
const time = { type: "function", function: { name: "time", description: "The time of day" } };
/** A signal, and who is told of text as it comes. */
interface Asked {
  signal?: AbortSignal;
  tell?: (text: string) => void;
}

/** Sends bodies of chats with two tools to such a model, and takes answers as a batch does. */
export function chatsWithTools(model: Parameters<typeof requestPromptSet>[0]) {
  const generation = { ...greedyParameters, maxNewTokens: 80, seed: 1 };
  const prompts = requestPromptSet(model, ["*"], generation);
  return async (
    engine: Engine,
    body: JsonObject,
    { signal = never, tell }: Asked = {},
  ): Promise<InferenceResponse> => {
    const chat = {
      messages: [{ role: "user", content: "How is the weather in Bern?" }],
      tools: [weather, time],
      ...body,
    };
    const line = { custom_id: "1", method: "POST", url: "/v1/chat/completions", body: chat };
    const [request] = prompts.requests(line, 0);
    const onDelta: OnDelta | undefined = tell && (({ text }) => tell(text));
    return prompts.accept(request!, await engine.infer(request!, signal, onDelta));
  };
}

export const callsOf = ({ answers }: InferenceResponse) =>
  answers.flatMap(({ toolCalls = [] }) => toolCalls.map(({ function: called }) => called));

/** Expects a call of one of the tools, with arguments of its schema. */
export function expectValid({ name, arguments: given }: { name: string; arguments: string }): void {
  const value = JSON.parse(given) as JsonObject;
  if (name === "time") return expect(value).toEqual({});
  expect(name).toBe("weather");
  expect(value.city).toBeTypeOf("string");
  expect(["celsius", "fahrenheit"]).toContain(value.unit);
  if (value.days !== undefined) expect(Number.isInteger(value.days)).toBe(true);
}

/** Expects an answer in the form that was asked for, or a call. */
export async function expectFormOrCall(
  ask: ReturnType<typeof chatsWithTools>,
  engine: Engine,
): Promise<void> {
  const properties = { rain: { type: "boolean" } };
  const schema = { type: "object", properties, required: ["rain"] };
  const format = { type: "json_schema", json_schema: { name: "rain", schema } };
  const [plain, forced] = await Promise.all([
    ask(engine, { response_format: format }),
    ask(engine, { response_format: format, tool_choice: "required" }),
  ]);
  const { text, toolCalls } = plain!.answers[0]!;
  if (toolCalls === undefined) expect(JSON.parse(text).rain).toBeTypeOf("boolean");
  for (const call of [...callsOf(plain!), ...callsOf(forced!)]) expectValid(call);
  expect(callsOf(forced!).length).toBeGreaterThan(0);
}

/** A batch file with lines that may call, must call, call nothing, and ask for nonsense. */
export async function expectBatchOfCalls(
  modelArguments: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<void> {
  const folder = serveFolder();
  const question = { role: "user", content: "How is the weather in Bern?" };
  const tools = [weather];
  const bodies = {
    auto: { messages: primed, tools },
    forced: { messages: [question], tools, tool_choice: "required" },
    plain: { messages: [question], max_tokens: 8 },
    bad: { messages: [question], tools, tool_choice: "sometimes" },
  };
  const lines = Object.entries(bodies).map(([custom_id, body]) =>
    JSON.stringify({ custom_id, method: "POST", url: "/v1/chat/completions", body }),
  );
  writeFileSync(join(folder, "in.jsonl"), `${lines.join("\n")}\n`);
  const limits = ["--model.contextTokens", "768", "--generation.maxNewTokens", "80"];
  const files = ["run-batch", "-i", "in.jsonl", "-o", "out.jsonl", "--quiet"];
  const args = [...files, ...modelArguments, ...limits, "--model.threads", "1"];
  const { stderr } = await runSluice(args, folder, environment);
  const out = readFileSync(join(folder, "out.jsonl"), "utf8").trim().split("\n");
  const byId = new Map(
    out.map((text) => JSON.parse(text)).map((each) => [each.custom_id as string, each]),
  );
  const choiceOf = (id: string) => byId.get(id).response.body.choices[0];
  expect(choiceOf("auto"), stderr).toMatchObject({
    ...{ finish_reason: "tool_calls", message: { content: "I look it up." } },
  });
  expectValid(choiceOf("forced").message.tool_calls[0].function);
  expect(choiceOf("plain").message.tool_calls).toBeUndefined();
  expect(JSON.stringify(byId.get("bad"))).toContain("tool_choice");
}
