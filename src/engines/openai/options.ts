import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { setting } from "../../foundation/setting.ts";

const count = z.int().min(1);

/** `model` of a job with engine `openai`. */
export const openaiModel = z.strictObject({
  engine: z.literal("openai"),
  name: z.string().describe("The model's name on the server"),
  baseUrl: setting(
    "operation",
    "Address up to and with /v1; default https://api.openai.com/v1",
    z.url().default("https://api.openai.com/v1"),
  ),
  apiKeyEnv: setting(
    "operation",
    "Environment variable that holds the API key; default OPENAI_API_KEY where it is set",
    z.string().optional(),
  ),
  maxInFlight: setting(
    "operation",
    "Requests at once",
    count.max(4096).default(limits.defaultMaxInFlight),
  ),
  timeoutMs: setting(
    "operation",
    "Time one request may take",
    count.default(limits.requestTimeoutMs),
  ),
  maxEndpointDownMs: setting(
    "operation",
    "Time the endpoint may be down before the run stops, resumable",
    z.int().min(0).default(limits.maxEndpointDownMs),
  ),
  structuredOutput: setting(
    "operation",
    "How the server is asked to keep to a schema; none: answers are only checked",
    z.enum(["response-format", "grammar", "structured-outputs", "none"]).default("response-format"),
  ),
  contextTokens: count
    .optional()
    .describe("Context of the model, where the server does not check it"),
});

export type OpenaiModelOptions = z.output<typeof openaiModel>;
