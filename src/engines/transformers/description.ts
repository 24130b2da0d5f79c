import { type EngineDescription, threadACore } from "../engine-description.ts";
import { withAbsoluteName } from "../models/model-path.ts";
import { fullSupport, type ParameterSupport } from "../parameter-support.ts";
import type { TransformersModelOptions, TransformersTask } from "./options.ts";
import { soundOf } from "./tasks/asked-text.ts";

const generating: readonly TransformersTask[] = ["translation", "summarization", "text-generation"];

const noOption = "leave it out: engine transformers has no such option";

const generationSupport: ParameterSupport = Object.freeze({
  ...fullSupport,
  numBeams: true,
  lengthPenalty: true,
  earlyStopping: true,
  presencePenalty: noOption,
  frequencyPenalty: noOption,
  logprobs: "leave it out, or take engine llama, which reports log-probabilities",
  prependBos: noOption,
});

const noGeneration = "leave it out: this task generates no text";

/** For tasks that choose no tokens; the model's own options limit a text's length. */
const valueSupport = Object.freeze(
  Object.fromEntries(Object.keys(fullSupport).map((name) => [name, noGeneration])),
) as ParameterSupport;

export const transformersDescription: EngineDescription<TransformersModelOptions> = {
  open: async (options, context) =>
    (await import("./engine.ts")).openTransformers(options, context),
  support: ({ task }) => (generating.includes(task) ? generationSupport : valueSupport),
  embeds: ({ task }) => task === "feature-extraction",
  onlyEmbeds: ({ task }) => task === "feature-extraction",
  transcribes: ({ task }) => task === "automatic-speech-recognition",
  opensFile: (options, request) =>
    options.task === "automatic-speech-recognition" ? soundOf(request, options) : undefined,
  keepsPrefixes: false,
  takesRows: true,
  usesAllCores: true,
  devices: ({ device }) => (device === "cuda" ? {} : undefined),
  withAbsolutePaths: withAbsoluteName,
  sharedAmong: threadACore,
  async prepare(options, context, prepare) {
    const { prepareTransformers } = await import("./engine.ts");
    await prepareTransformers(options, context, prepare);
  },
  async check({ name }, context) {
    const { assertOnnxFolder, parseOnnxModelName } = await import("./model-place.ts");
    const model = parseOnnxModelName(name, context.workingDirectory);
    if (model.kind === "folder") await assertOnnxFolder(model.path);
  },
};
