import { expect } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import {
  greedyParameters,
  type InferenceResponse,
  type OnDelta,
} from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { requestPromptSet } from "../../src/run/plan/job-prompts.ts";

const never = new AbortController().signal;

/** Sampled answers that must be calls; more in `npm run test:long`. */
export const sampledCalls = Number(process.env.TEST_SLUICE_CALLS ?? 24);

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
