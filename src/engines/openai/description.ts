import type { EngineDescription } from "../engine-description.ts";
import { checkKeys } from "./api-key.ts";
import { endpointsOf, type OpenaiModelOptions } from "./options.ts";
import {
  compatibleSupport,
  isOpenaiItself,
  openaiItselfSupport,
  unsupportedPolicies,
} from "./unsupported.ts";

/** What is known of engine `openai` without opening it. */
export const openaiDescription: EngineDescription<OpenaiModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openOpenai(options, context),
  support: (options) =>
    serversOf(options).some(isOpenaiItself) ? openaiItselfSupport : compatibleSupport,
  unsupportedPolicies,
  embeds: () => true,
  transcribes: () => true,
  seesImages: true,
  keepsPrefixes: true,
  isShared: true,
  servers: serversOf,
  sharedAmong: ({ maxInFlight, requestsPerMinute, tokensPerMinute, ...options }, workers) => ({
    ...options,
    maxInFlight: maxInFlight && Math.max(1, Math.floor(maxInFlight / workers)),
    requestsPerMinute: requestsPerMinute && requestsPerMinute / workers,
    tokensPerMinute: tokensPerMinute && tokensPerMinute / workers,
  }),
  assertEnvironment: checkKeys,
};

function serversOf(options: OpenaiModelOptions): string[] {
  return endpointsOf(options).map(({ baseUrl }) => baseUrl);
}
