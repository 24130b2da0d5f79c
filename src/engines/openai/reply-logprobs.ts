import type { TokenAlternative, TokenLogprob } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";

/** JSON has no infinity; servers write this, or null, for a token that was ruled out. */
const leastLogprob = -9999;

/**
 * The log-probabilities of a choice, in the form of chats (`content`) or of completions (`tokens`),
 * each token with at most `count` alternatives. Undefined where there are none.
 */
export function readLogprobs(logprobs: Json | undefined, count: number) {
  if (!isJsonObject(logprobs)) return undefined;
  if (Array.isArray(logprobs.content)) return ofChat(logprobs.content, count);
  return Array.isArray(logprobs.tokens) ? ofCompletion(logprobs, count) : undefined;
}

function ofChat(content: readonly Json[], count: number): TokenLogprob[] {
  return content.filter(isJsonObject).map((entry) => ({
    ...alternative(entry),
    alternatives: likeliest(
      listOf(entry.top_logprobs).filter(isJsonObject).map(alternative),
      count,
    ),
  }));
}

function alternative({ token, logprob }: JsonObject): TokenAlternative {
  return { token: tokenText(token), logprob: finite(logprob) };
}

function ofCompletion(logprobs: JsonObject, count: number): TokenLogprob[] {
  const values = listOf(logprobs.token_logprobs);
  const tops = listOf(logprobs.top_logprobs);
  return listOf(logprobs.tokens).map((token, at) => {
    const top = tops[at];
    const entries = isJsonObject(top ?? null) ? Object.entries(top as JsonObject) : [];
    const alternatives = entries.map(([text, value]) => ({ token: text, logprob: finite(value) }));
    return {
      token: tokenText(token),
      logprob: finite(values[at]),
      alternatives: likeliest(alternatives, count),
    };
  });
}

/** Some servers add the chosen token to the alternatives; it is reported beside them already. */
function likeliest(alternatives: readonly TokenAlternative[], count: number): TokenAlternative[] {
  return alternatives.toSorted((a, b) => b.logprob - a.logprob).slice(0, count);
}

/** Some servers give the numbers of tokens; anything else is none. */
function tokenText(token: Json | undefined): string {
  return typeof token === "string" || typeof token === "number" ? String(token) : "";
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function finite(value: Json | undefined): number {
  return typeof value === "number" ? Math.max(value, leastLogprob) : leastLogprob;
}
