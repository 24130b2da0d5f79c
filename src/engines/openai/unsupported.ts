import type { TooLongPolicy } from "../../foundation/inference.ts";
import { fullSupport, type ParameterSupport, type Unsupported } from "../parameter-support.ts";

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

/** Policies that would need the server's tokenizer. */
export function unsupportedPolicies(policies: Iterable<TooLongPolicy>): Unsupported[] {
  const hint = "set onTooLong: fail: only the server knows how long a prompt is";
  return [...new Set(policies)]
    .filter((policy) => policy !== "fail")
    .map((policy) => ({ option: `onTooLong: ${policy}`, hint }));
}
