import { type EngineDescription, onThisMachine, threadACore } from "../engine-description.ts";
import { withAbsoluteFile } from "../models/model-path.ts";
import { fullSupport } from "../parameter-support.ts";
import type { OpenvinoModelOptions } from "./options.ts";

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
  callsTools: true,
  enforcesArguments: true,
  keepsPrefixes: true,
  usesAllCores: true,
  withAbsolutePaths: withAbsoluteFile,
  sharedAmong: threadACore,
  ...onThisMachine("openvino", async (...of) =>
    (await import("./model-files.ts")).findWeights(...of),
  ),
};
