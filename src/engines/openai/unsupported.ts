import { fullSupport, type ParameterSupport } from "../parameter-support.ts";

/** True for the one server that refuses parameters beyond its own documentation. */
export function isOpenaiItself(baseUrl: string): boolean {
  return new URL(baseUrl).hostname === "api.openai.com";
}

/** The generation parameters of compatible servers, such as vLLM. */
export const compatibleSupport: ParameterSupport = Object.freeze({
  ...fullSupport,
  maxLength: "give maxNewTokens: only the server knows how long a prompt is",
  prependBos: "leave prependBos out: the server decides how a prompt begins",
});

const unknownThere = (name: string) => `leave ${name} out: api.openai.com does not know it`;

/** The same of api.openai.com. */
export const openaiItselfSupport: ParameterSupport = Object.freeze({
  ...compatibleSupport,
  topK: unknownThere("topK"),
  minP: unknownThere("minP"),
  repetitionPenalty: unknownThere("repetitionPenalty"),
  ignoreEos: unknownThere("ignoreEos"),
});

/** The advice on prompts that are too long: to cut them would need the server's tokenizer. */
export const cutsNone = "set onTooLong: fail: only the server knows how long a prompt is";
