import type { EngineDescription, SentKey } from "../engine-description.ts";
import type { ModelContext } from "../models/model-context.ts";
import { checkKeys, defaultKeyVariable, endpointsOf, isOfOpenai } from "./api-key.ts";
import { providerBatchOptions } from "./batch/settings.ts";
import type { EndpointOptions, OpenaiModelOptions } from "./options.ts";
import { compatibleSupport, cutsNone, isOpenaiItself, openaiItselfSupport } from "./unsupported.ts";

export const openaiDescription: EngineDescription<OpenaiModelOptions> = {
  open: async (options, context) =>
    options.via === "batch"
      ? (await import("./batch/engine.ts")).openBatchEngine(options, context)
      : (await import("./engine.ts")).openOpenai(options, context),
  support: (options) =>
    serversOf(options).some(isOpenaiItself) ? openaiItselfSupport : compatibleSupport,
  cutsNone,
  maxNewTokens: null,
  embeds: () => true,
  transcribes: () => true,
  seesImages: true,
  contentParts: ["image", "audio"],
  callsTools: true,
  keepsPrefixes: true,
  isShared: true,
  // A caller that is told at once can choose to wait, or to go elsewhere.
  forOnline: (options) => ({ ...options, maxEndpointDownMs: 0 }),
  sendsBatches: ({ via }) => via === "batch",
  cancelBatches: async (options, ...rest) =>
    (await import("./batch/end-batches.ts")).cancelBatches(options, ...rest),
  deleteBatchFiles: async (options, ...rest) =>
    (await import("./batch/end-batches.ts")).deleteBatchFiles(options, ...rest),
  taskRows(options, rows) {
    if (options.via !== "batch") return undefined;
    const { maxBatches, maxRequests } = providerBatchOptions(options);
    return Math.min(maxRequests, Math.ceil(rows / maxBatches));
  },
  maxOpenTasks: (options) =>
    options.via === "batch" ? providerBatchOptions(options).maxBatches : undefined,
  servers: serversOf,
  sendsKeys: (options) => endpointsOf(options).flatMap(sentKey),
  sharedAmong: ({ maxInFlight, requestsPerMinute, tokensPerMinute, ...options }, workers) => ({
    ...options,
    maxInFlight: maxInFlight && Math.max(1, Math.floor(maxInFlight / workers)),
    requestsPerMinute: requestsPerMinute && requestsPerMinute / workers,
    tokensPerMinute: tokensPerMinute && tokensPerMinute / workers,
    ...(options.via === "batch" && { batch: batchesShared(options, workers) }),
  }),
  assertEnvironment: checkKeys,
  prepare: contact,
  check: contact,
  looksAt: ({ firstAnswerMs, ...options }) => (firstAnswerMs === 0 ? [] : serversOf(options)),
};

async function contact(options: OpenaiModelOptions, context: ModelContext): Promise<void> {
  const { contactEndpoints } = await import("./first-contact.ts");
  await contactEndpoints(options, context);
}

function sentKey({ baseUrl, apiKeyEnv }: EndpointOptions): SentKey[] {
  const isDefault = apiKeyEnv === undefined;
  if (isDefault && !isOfOpenai(baseUrl)) return [];
  return [{ variable: apiKeyEnv ?? defaultKeyVariable, host: new URL(baseUrl).host, isDefault }];
}

function batchesShared(options: Pick<OpenaiModelOptions, "batch">, workers: number) {
  const batch = providerBatchOptions(options);
  return { ...batch, maxBatches: Math.max(1, Math.floor(batch.maxBatches / workers)) };
}

function serversOf(options: Pick<OpenaiModelOptions, "baseUrl" | "endpoints">): string[] {
  return endpointsOf(options).map(({ baseUrl }) => baseUrl);
}
