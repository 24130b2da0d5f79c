import { type EngineDescription, threadACore } from "../engine-description.ts";
import { isModelPath } from "../models/model-path.ts";
import { fullSupport } from "../parameter-support.ts";
import type { LlamaModelOptions } from "./options.ts";

/** The description of engine `llama`. */
export const llamaDescription: EngineDescription<LlamaModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openLlama(options, context),
  support: () => fullSupport,
  maxNewTokens: 1024,
  embeds: () => true,
  keepsPrefixes: true,
  usesAllCores: true,
  devices: (options) => (options.gpuLayers === 0 ? undefined : options),
  withAbsolutePaths(options, absolute) {
    const { name, lora } = options;
    return {
      ...options,
      name: isModelPath(name) ? absolute(name, "model", "name") : name,
      ...(lora && {
        lora: lora.map(({ path, scale }) => ({ path: absolute(path, "model", "lora"), scale })),
      }),
    };
  },
  sharedAmong: threadACore,
  async prepare({ name }, context, { install, onProgress, onWait }) {
    const { locateEnginePackage } = await import("../packages/packages.ts");
    await locateEnginePackage("llama", context, {
      install,
      onWait: () => onWait?.("the llama engine"),
      onProgress: (bytes) => onProgress?.({ name: "llama engine", source: "npm", bytes }),
    });
    const { resolveModel } = await import("../models/models.ts");
    await resolveModel(name, context, {
      download: install,
      onWait: () => onWait?.(name),
      onProgress: (progress) => onProgress?.(progress),
    });
  },
  async check({ name }, context) {
    const { parseModelName } = await import("../models/model-reference.ts");
    if (parseModelName(name, context.workingDirectory).kind !== "path") return;
    const { resolveModel } = await import("../models/models.ts");
    await resolveModel(name, context, { download: false });
  },
};
