import type { EngineDescription } from "../engine-description.ts";
import { apiKey } from "./api-key.ts";
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
  keepsPrefixes: true,
  isShared: true,
  servers: serversOf,
  sharedAmong: ({ maxInFlight, requestsPerMinute, tokensPerMinute, ...options }, workers) => ({
    ...options,
    maxInFlight: partOf(maxInFlight, workers),
    requestsPerMinute: partOf(requestsPerMinute, workers),
    tokensPerMinute: partOf(tokensPerMinute, workers),
  }),
  assertEnvironment(options, environment) {
    for (const endpoint of endpointsOf(options)) apiKey(endpoint, environment);
  },
};

function serversOf(options: OpenaiModelOptions): string[] {
  return endpointsOf(options).map(({ baseUrl }) => baseUrl);
}

/** What each of several workers has of a limit that is for all of them. */
function partOf(limit: number | undefined, workers: number): number | undefined {
  return limit === undefined ? undefined : Math.max(1, Math.ceil(limit / workers));
}
