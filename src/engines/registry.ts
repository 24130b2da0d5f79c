import { existsSync } from "node:fs";
import { join } from "node:path";
import type { SamplingParameters, TooLongPolicy } from "../foundation/inference.ts";
import { commandDescription } from "./command/description.ts";
import type { Engine, EngineContext } from "./engine.ts";
import type { EngineDescription } from "./engine-description.ts";
import { fakeDescription } from "./fake/description.ts";
import { llamaDescription } from "./llama/description.ts";
import { llamaServerDescription, vllmDescription } from "./managed/description.ts";
import type { ModelOptions } from "./model-options.ts";
import { openaiDescription } from "./openai/description.ts";
import { openedEngine } from "./opened-engine.ts";
import { openvinoDescription } from "./openvino/description.ts";
import { type Unsupported, unsupportedParameters } from "./parameter-support.ts";
import { pipelineDescription } from "./pipeline/description.ts";
import { predictorDescription } from "./predictor/description.ts";
import { programDescription } from "./program/description.ts";
import { transformersDescription } from "./transformers/description.ts";

/** Every engine, by its name in a job. */
const descriptions: {
  [Name in ModelOptions["engine"]]: EngineDescription<Extract<ModelOptions, { engine: Name }>>;
} = {
  command: commandDescription,
  fake: fakeDescription,
  llama: llamaDescription,
  "llama-server": llamaServerDescription,
  openai: openaiDescription,
  openvino: openvinoDescription,
  pipeline: pipelineDescription((model) => describeEngine(model)),
  predictor: predictorDescription,
  program: programDescription,
  transformers: transformersDescription,
  vllm: vllmDescription,
};

/**
 * The description of the engine in `options`, without opening it.
 *
 * @example
 * describeEngine(modelOptions.parse({ engine: "llama", name: "m" })).keepsPrefixes; // true
 */
export function describeEngine<Options extends ModelOptions>(
  options: Options,
): EngineDescription<Options> {
  return descriptions[options.engine] as EngineDescription<never> as EngineDescription<Options>;
}

/** Whether the engine in `options` writes texts, embeddings of texts, and transcripts of files. */
export function answeredApis<Options extends ModelOptions>(
  options: Options,
): Readonly<{ text: boolean; embedding: boolean; transcription: boolean }> {
  const { onlyEmbeds, embeds, transcribes } = describeEngine(options);
  return {
    text: !onlyEmbeds?.(options),
    embedding: embeds?.(options) ?? false,
    transcription: transcribes?.(options) ?? false,
  };
}

/**
 * Opens the engine in `options`. Every engine refuses what it cannot take, and reports answers as
 * deltas to callers that want them, as a whole if it does not stream.
 *
 * @throws SluiceError its reason why it cannot be opened.
 * @example
 * const engine = await openEngine(modelOptions.parse({ engine: "fake" }), context);
 */
export async function openEngine(options: ModelOptions, context: EngineContext): Promise<Engine> {
  const description = describeEngine(options);
  const here = withSentFiles(options, context.environment.SLUICE_RAY_FILES);
  return openedEngine(await description.open(here, context), description);
}

/** The options with modules that came with the job where they are on this machine. */
function withSentFiles(options: ModelOptions, folder: string | undefined): ModelOptions {
  if (!folder) return options;
  return (
    describeEngine(options).withAbsolutePaths?.(options, (path) => {
      const sent = join(folder, path);
      return existsSync(sent) ? sent : path;
    }) ?? options
  );
}

/**
 * The requests of a job that its engine cannot fulfil. Planning refuses them as `UNSUPPORTED`,
 * before the first request.
 *
 * @param policies how the job's prompts treat texts that are too long.
 */
export function unsupportedOptions(
  options: ModelOptions,
  parameters: SamplingParameters,
  policies: Iterable<TooLongPolicy>,
): Unsupported[] {
  const { support, cutsNone: hint } = describeEngine(options);
  const found = unsupportedParameters(support(options), parameters);
  if (hint === undefined) return found;
  const cutting = [...new Set(policies)].filter((policy) => policy !== "fail");
  return [...found, ...cutting.map((policy) => ({ option: `onTooLong: ${policy}`, hint }))];
}
