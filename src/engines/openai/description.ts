import type { EngineDescription } from "../engine-description.ts";
import { apiKey } from "./api-key.ts";
import type { OpenaiModelOptions } from "./options.ts";
import {
  compatibleSupport,
  isOpenaiItself,
  openaiItselfSupport,
  unsupportedPolicies,
} from "./unsupported.ts";

/** What is known of engine `openai` without opening it. */
export const openaiDescription: EngineDescription<OpenaiModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openOpenai(options, context),
  support: ({ baseUrl }) => (isOpenaiItself(baseUrl) ? openaiItselfSupport : compatibleSupport),
  unsupportedPolicies,
  embeds: false,
  keepsPrefixes: true,
  isShared: true,
  servers: ({ baseUrl }) => [baseUrl],
  sharedAmong: (options, workers) => ({
    ...options,
    maxInFlight: Math.max(1, Math.ceil(options.maxInFlight / workers)),
  }),
  assertEnvironment: (options, environment) => void apiKey(options, environment),
};
