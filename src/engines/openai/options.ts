import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";
import { batchDefaults } from "./batch/settings.ts";

/** What looks like a secret; a job is written into the plan of every run. */
const secretFields = /^(api[_-]?key|authorization|access[_-]?token|secret|password|bearer)$/i;
/** The same in the query of an address, where single words are in use. */
const secretInQuery = /^(key|token|sig|signature|code)$/i;
const secretRefused = "a secret does not belong in a job: use apiKeyEnv";

const address = z.url({ protocol: /^https?$/, abort: true }).superRefine((text, context) => {
  for (const name of new URL(text).searchParams.keys()) {
    if (!secretFields.test(name) && !secretInQuery.test(name)) continue;
    context.addIssue({ code: "custom", message: `${name} in its query: ${secretRefused}` });
  }
});

const endpoint = z.strictObject({
  baseUrl: address.describe("Address up to and including /v1"),
  weight: z
    .number()
    .gt(0)
    .max(limits.maxEndpointWeight)
    .default(1)
    .describe("Its share of the requests, relative to the others'"),
  apiKeyEnv: z
    .string()
    .optional()
    .describe("Environment variable with its API key; default: model.apiKeyEnv"),
});

/** Fields of a body that follow from other keys of a job, with these keys. */
const ownFields: Readonly<Record<string, string>> = {
  model: "model.name",
  messages: "prompt",
  prompt: "prompt",
  input: "prompt",
  file: "prompt.file",
  max_tokens: "generation.maxNewTokens",
  max_completion_tokens: "generation.maxNewTokens",
  temperature: "generation.temperature",
  top_p: "generation.topP",
  top_k: "generation.topK",
  min_p: "generation.minP",
  seed: "generation.seed",
  stop: "generation.stop",
  n: "generation.numReturnSequences",
  logprobs: "generation.logprobs",
  top_logprobs: "generation.logprobs",
  presence_penalty: "generation.presencePenalty",
  frequency_penalty: "generation.frequencyPenalty",
  repetition_penalty: "generation.repetitionPenalty",
  ignore_eos: "generation.ignoreEos",
  response_format: "schema",
  grammar: "model.structuredOutput",
  structured_outputs: "model.structuredOutput",
  encoding_format: "the engine, which reads float",
  stream: "the engine, which reads whole answers",
};

const extraBody = z.record(z.string(), z.json()).superRefine((fields, context) => {
  for (const name of Object.keys(fields)) {
    const refuse = (message: string) => context.addIssue({ code: "custom", path: [name], message });
    if (Object.hasOwn(ownFields, name)) refuse(`${ownFields[name]} says it: leave it out here`);
    else if (secretFields.test(name)) refuse(secretRefused);
  }
});

/** How requests go through a provider's batch API. */
const providerBatches = z.strictObject({
  maxBatches: atLeastOne
    .max(limits.maxProviderBatches)
    .default(batchDefaults.maxBatches)
    .describe("Batches at the provider at once, of all workers together"),
  maxRequests: atLeastOne
    .max(limits.maxProviderBatchRequests)
    .default(batchDefaults.maxRequests)
    .describe("Requests of one batch; a larger task becomes several batches"),
  maxFileBytes: atLeastOne
    .default(batchDefaults.maxFileBytes)
    .describe("Bytes of the file of one batch"),
  maxBatchDelayMs: z
    .int()
    .min(0)
    .default(batchDefaults.maxBatchDelayMs)
    .describe("How long a batch waits for another request of its task before it is sent"),
  pollMs: atLeastOne
    .default(batchDefaults.pollMs)
    .describe("Shortest time between two looks at a batch; it grows to a 20th of the batch's age"),
  maxPollMs: atLeastOne
    .default(batchDefaults.maxPollMs)
    .describe("Longest time between two looks at a batch"),
  keepFiles: z
    .boolean()
    .default(batchDefaults.keepFiles)
    .describe("Leave files of requests and results at the provider when the run has its answers"),
});

/** Keys that say how single requests are sent. */
const keysOfRequests = [
  "endpoints",
  "maxInFlight",
  "requestsPerMinute",
  "tokensPerMinute",
  "maxBatchRows",
] as const;

/** `model` of a job with engine `openai`. */
export const openaiModel = z
  .strictObject({
    engine: z.literal("openai").describe("The engine that answers requests"),
    name: z.string().describe("The model's name on the server"),
    baseUrl: setting(
      "operation",
      "Address up to and including /v1; default https://api.openai.com/v1",
      address.optional(),
    ),
    endpoints: setting(
      "operation",
      "Several servers of the same model, in place of baseUrl",
      z.array(endpoint).min(1).max(limits.maxEndpoints).optional(),
    ),
    apiKeyEnv: setting(
      "operation",
      "Environment variable with the API key; default, for OpenAI only: OPENAI_API_KEY",
      z.string().optional(),
    ),
    via: setting(
      "operation",
      "How requests are sent: one by one, or in files of the provider's batch API",
      z.enum(["requests", "batch"]).default("requests"),
    ),
    batch: setting("operation", "With via: batch: the batches", providerBatches.optional()),
    maxInFlight: setting(
      "operation",
      "Requests at once to one endpoint; default: found automatically",
      atLeastOne.max(limits.maxInFlight).optional(),
    ),
    requestsPerMinute: setting(
      "operation",
      "Requests a minute to one endpoint; default: from its rate-limit headers",
      atLeastOne.optional(),
    ),
    tokensPerMinute: setting(
      "operation",
      "Tokens a minute to one endpoint, of prompts and answers; default: from its headers",
      atLeastOne.optional(),
    ),
    maxBatchRows: setting(
      "operation",
      `Texts of one embedding request; default ${limits.defaultEmbeddedTexts}`,
      atLeastOne.max(limits.maxEmbeddedTexts).optional(),
    ),
    extraBody: extraBody
      .optional()
      .describe("Additional fields of each request, by the server's names"),
    timeoutMs: setting(
      "operation",
      "Longest time of one request",
      atLeastOne.default(limits.requestTimeoutMs),
    ),
    firstAnswerMs: setting(
      "operation",
      "Time in which refused connections are tried again before the first row; 0: no check",
      z.int().min(0).default(limits.firstAnswerMs),
    ),
    maxEndpointDownMs: setting(
      "operation",
      "Longest outage of the endpoint before the run stops, resumable",
      z.int().min(0).default(limits.maxEndpointDownMs),
    ),
    structuredOutput: setting(
      "operation",
      "How the server is asked to follow a schema; none: answers are only checked",
      z
        .enum(["response-format", "grammar", "structured-outputs", "none"])
        .default("response-format"),
    ),
    contextTokens: atLeastOne
      .optional()
      .describe("Context of the model, if the server does not check it"),
  })
  .superRefine(({ baseUrl, endpoints = [], via, batch, ...others }, context) => {
    const refuse = (path: (string | number)[], message: string) =>
      context.addIssue({ code: "custom", path, message });
    if (via !== "batch" && batch !== undefined) refuse(["batch"], "needs via: batch");
    for (const key of via === "batch" ? keysOfRequests : []) {
      if (key === "endpoints" ? endpoints.length === 0 : others[key] === undefined) continue;
      refuse([key], "has no effect with via: batch: leave it out");
    }
    if (baseUrl !== undefined && endpoints.length > 0) {
      refuse(["endpoints"], "baseUrl says where to ask: give one of them");
    }
    const addresses = endpoints.map((each) => each.baseUrl);
    for (const [at, address] of addresses.entries()) {
      if (addresses.indexOf(address) < at)
        refuse(["endpoints", at, "baseUrl"], "it is there twice");
    }
  });

export type OpenaiModelOptions = z.output<typeof openaiModel>;

/** One server of a model. */
export type EndpointOptions = z.output<typeof endpoint>;
