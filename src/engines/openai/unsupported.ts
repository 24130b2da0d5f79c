import type { GenerationParameters, TooLongPolicy } from "../../foundation/inference.ts";
import type { OpenaiModelOptions } from "../model-options.ts";

/** True for the one server that refuses parameters beyond its own documentation. */
export function isOpenaiItself(baseUrl: string): boolean {
  return new URL(baseUrl).hostname === "api.openai.com";
}

type Sampling = Pick<GenerationParameters, "topK" | "minP" | "repetitionPenalty">;

/**
 * The names of generation parameters that are set and that the endpoint does not know.
 *
 * @example
 * const baseUrl = "https://api.openai.com/v1";
 * unsupportedParameters({ baseUrl }, { topK: 40, minP: 0, repetitionPenalty: 1 }); // ["topK"]
 */
export function unsupportedParameters(
  options: Pick<OpenaiModelOptions, "baseUrl">,
  generation: Sampling,
): string[] {
  if (!isOpenaiItself(options.baseUrl)) return [];
  const isSet: Record<keyof Sampling, boolean> = {
    topK: generation.topK !== 0,
    minP: generation.minP !== 0,
    repetitionPenalty: generation.repetitionPenalty !== 1,
  };
  return Object.entries(isSet).flatMap(([name, set]) => (set ? [name] : []));
}

/**
 * What a job asks of this engine that it cannot do, as `key` or `key: value` of the job file, for
 * refusing it as `UNSUPPORTED` while planning: parameters as above, and truncation, which would
 * need the server's tokenizer.
 */
export function unsupportedOptions(
  options: Pick<OpenaiModelOptions, "baseUrl">,
  generation: Sampling,
  policies: Iterable<TooLongPolicy>,
): string[] {
  const parameters = unsupportedParameters(options, generation);
  const truncations = [...new Set(policies)].filter((policy) => policy !== "fail");
  return [
    ...parameters.map((name) => `generation.${name}`),
    ...truncations.map((policy) => `onTooLong: ${policy}`),
  ];
}
