import { type EngineDescription, onThisMachine, threadACore } from "../engine-description.ts";
import { withAbsoluteFile } from "../models/model-path.ts";
import { fullSupport } from "../parameter-support.ts";
import type { LlamaModelOptions } from "./options.ts";

export const llamaDescription: EngineDescription<LlamaModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openLlama(options, context),
  support: () => fullSupport,
  maxNewTokens: 1024,
  embeds: () => true,
  callsTools: true,
  enforcesArguments: true,
  keepsPrefixes: true,
  usesAllCores: true,
  devices: (options) => (options.gpuLayers === 0 ? undefined : options),
  spreadsOverDevices: true,
  withAbsolutePaths(options, absolute) {
    const { lora } = options;
    return {
      ...withAbsoluteFile(options, absolute),
      ...(lora && {
        lora: lora.map(({ path, scale }) => ({ path: absolute(path, "model", "lora"), scale })),
      }),
    };
  },
  sharedAmong: threadACore,
  forOnline: (options) => ({ precision: "fast", ...options }),
  ...onThisMachine("llama", async (...of) =>
    (await import("../models/models.ts")).resolveModel(...of),
  ),
};
