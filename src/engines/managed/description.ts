import { access } from "node:fs/promises";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import {
  type EngineDescription,
  type MakeAbsolute,
  onThisMachine,
  threadACore,
} from "../engine-description.ts";
import { isModelPath, withAbsoluteName } from "../models/model-path.ts";
import { compatibleSupport, cutsNone } from "../openai/unsupported.ts";
import type { LlamaServerModelOptions, ManagedModelOptions, VllmModelOptions } from "./options.ts";
import {
  argumentsOf,
  checkOptions,
  commandOf,
  findServerProgram,
  gpusOfVllm,
} from "./server-programs.ts";

/** Common to both: each worker has its own server, with requests like those of engine `openai`. */
const common = {
  cutsNone,
  maxNewTokens: null,
  embeds: () => true,
  callsTools: true,
  keepsPrefixes: true,
  usesAllCores: true,
  executes: (options: ManagedModelOptions) => [
    [...commandOf(options), ...argumentsOf(options)].join(" "),
  ],
  assertEnvironment: checkOptions,
  withAbsolutePaths,
  readyTimeoutMs: ({ loadTimeoutMs }: ManagedModelOptions) =>
    limits.workerReadyTimeoutMs + loadTimeoutMs,
};

const ggufModel = onThisMachine(undefined, async (...of) =>
  (await import("../models/models.ts")).resolveModel(...of),
);

export const llamaServerDescription: EngineDescription<LlamaServerModelOptions> = {
  ...common,
  open: async (options, context) => (await import("./open.ts")).openLlamaServer(options, context),
  support: () => ({
    ...compatibleSupport,
    repetitionPenalty: "give it to the server: model.args: [--repeat-penalty, 1.1]",
  }),
  devices: ({ gpuLayers, devices }) => (gpuLayers === 0 ? undefined : { devices }),
  spreadsOverDevices: true,
  sharedAmong: threadACore,
  async prepare(options, context, prepare) {
    await findServerProgram(options, context.environment);
    await ggufModel.prepare(options, context, prepare);
  },
  async check(options, context) {
    await findServerProgram(options, context.environment);
    await ggufModel.check(options, context);
  },
};

export const vllmDescription: EngineDescription<VllmModelOptions> = {
  ...common,
  seesImages: true,
  contentParts: ["image", "audio"],
  open: async (options, context) => (await import("./open.ts")).openVllm(options, context),
  support: () => compatibleSupport,
  devices: (options) => ({ devices: options.devices, perWorker: gpusOfVllm(options) }),
  async prepare(options, context) {
    await findServerProgram(options, context.environment);
  },
  async check(options, context) {
    await findServerProgram(options, context.environment);
    if (!isModelPath(options.name)) return;
    await access(options.name).catch((cause: Error) => {
      throw new SluiceError("MODEL_UNREADABLE", cause.message, { field: "model.name", cause });
    });
  },
};

/** A program without a slash is searched on PATH. */
function withAbsolutePaths<Options extends ManagedModelOptions>(
  options: Options,
  absolute: MakeAbsolute,
): Options {
  const [program, ...first] = commandOf(options);
  return {
    ...withAbsoluteName(options, absolute),
    ...(program.includes("/") && {
      command: [absolute(program, "model", "command"), ...first],
    }),
  };
}
