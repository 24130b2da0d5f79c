import { type EngineDescription, threadACore } from "../engine-description.ts";
import { isModelPath } from "../models/model-path.ts";
import { fullSupport } from "../parameter-support.ts";
import type { OpenvinoModelOptions } from "./options.ts";

/** The description of engine `openvino`. */
export const openvinoDescription: EngineDescription<OpenvinoModelOptions> = {
  open: async (options, context) => (await import("./engine.ts")).openOpenvino(options, context),
  support: () => ({
    ...fullSupport,
    numBeams: true,
    lengthPenalty: true,
    earlyStopping: true,
    logprobs: "leave it out, or take engine llama: the library reports the chosen token alone",
  }),
  maxNewTokens: 1024,
  keepsPrefixes: true,
  usesAllCores: true,
  withAbsolutePaths(options, absolute) {
    const { name } = options;
    return { ...options, name: isModelPath(name) ? absolute(name, "model", "name") : name };
  },
  sharedAmong: threadACore,
  async prepare({ name }, context, { install, onProgress, onWait }) {
    const { locateEnginePackage } = await import("../packages/packages.ts");
    await locateEnginePackage("openvino", context, {
      install,
      onWait: () => onWait?.("the openvino engine"),
      onProgress: (bytes) => onProgress?.({ name: "openvino engine", source: "pip", bytes }),
    });
    const { findWeights } = await import("./model-files.ts");
    await findWeights(name, context, {
      download: install,
      onWait: () => onWait?.(name),
      onProgress: (progress) => onProgress?.(progress),
    });
  },
  async check({ name }, context) {
    const { parseModelName } = await import("../models/model-reference.ts");
    if (parseModelName(name, context.workingDirectory).kind !== "path") return;
    const { findWeights } = await import("./model-files.ts");
    await findWeights(name, context, { download: false });
  },
};
