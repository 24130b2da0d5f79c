import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, PromptTokens, TooLongPolicy } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptPiece } from "./chat-template.ts";

/** What turning a prompt into tokens needs of a model. */
export interface PromptTokenizer {
  /** `isFirst`: the text stands at the start of the prompt. */
  tokenize(text: string, withSpecialTokens: boolean, isFirst: boolean): number[];
  /** The token that the model wants first, where it does. */
  firstToken: number | undefined;
}

/** How long a prompt may be, and what to do with a longer one. */
export interface PromptLimit {
  contextTokens: number;
  maxNewTokens: number;
  policy: TooLongPolicy;
}

/** What of a model bounds the prompts of requests. */
export interface PromptModel {
  contextTokens: number;
  /** The token that the model wants first, where it does, and the one that begins a text. */
  firstToken: number | undefined;
  bosToken: number | undefined;
}

/**
 * The tokens of a request's prompt, cut where it is too long and may be cut.
 *
 * @param tokens those of its parts, as `tokenParts` has them.
 * @throws SluiceError `PROMPT_TOO_LONG`; `REQUEST_REFUSED` where there are none.
 */
export function requestTokens(
  request: InferenceRequest,
  tokens: PromptTokens,
  { contextTokens, firstToken, bosToken }: PromptModel,
): number[] {
  const { maxNewTokens, maxLength, prependBos, explicit } = request.parameters;
  // Room that a prompt must leave: nobody asked for all of what is the limit by default.
  const room = explicit?.includes("maxNewTokens")
    ? maxNewTokens
    : Math.min(maxNewTokens, limits.maxNewTokens);
  const isChat = request.messages !== undefined;
  const wanted =
    isChat || prependBos === undefined ? firstToken : prependBos ? bosToken : undefined;
  const prompt = promptTokens(tokens, wanted, {
    contextTokens: Math.min(contextTokens, maxLength ?? contextTokens),
    // A length of prompt and answer together leaves the answer what the prompt does not take.
    maxNewTokens: request.embed === true ? 0 : maxLength === undefined ? room : 1,
    policy: request.onTooLong ?? "fail",
  });
  if (prompt.length === 0) throw new SluiceError("REQUEST_REFUSED", "the prompt is empty");
  return prompt;
}

/** The tokens of a prompt, part by part, before its first token and any cutting. */
export function tokenParts(
  pieces: readonly PromptPiece[],
  { tokenize }: Pick<PromptTokenizer, "tokenize">,
): PromptTokens {
  const tokens = pieces.map(({ kind, text }, at) => tokenize(text, kind === "template", at === 0));
  return partsOf(pieces, tokens);
}

/** As `tokenParts`, of tokens that were made of each piece. */
export function partsOf(
  pieces: readonly PromptPiece[],
  tokens: readonly (readonly number[])[],
): PromptTokens {
  const parts: (readonly number[])[] = [];
  for (const [at, { kind }] of pieces.entries()) {
    if (isContentAt(parts.length) !== (kind === "content")) parts.push([]);
    parts.push(tokens[at]!);
  }
  return parts;
}

/** Every second part of a prompt is content. */
function isContentAt(place: number): boolean {
  return place % 2 === 1;
}

/**
 * The tokens of a prompt, cut where it is too long and may be cut. Only contents are cut, never the
 * template around them: the longest content loses tokens first.
 *
 * @throws SluiceError `PROMPT_TOO_LONG` when it does not fit and may not be cut, or when nothing
 *   is left to cut.
 */
export function promptTokens(
  given: PromptTokens,
  firstToken: PromptTokenizer["firstToken"],
  limit: PromptLimit,
): number[] {
  const parts = given.map((tokens, at) => ({ isContent: isContentAt(at), tokens }));
  const first = given.find((tokens) => tokens.length > 0)?.[0];
  if (firstToken !== undefined && first !== firstToken) {
    parts.unshift({ isContent: false, tokens: [firstToken] });
  }
  const total = parts.reduce((sum, part) => sum + part.tokens.length, 0);
  let excess = total + limit.maxNewTokens - limit.contextTokens;
  if (excess > 0 && limit.policy === "fail") throw tooLong(total, limit);
  while (excess > 0) {
    const longest = parts
      .filter((part) => part.isContent)
      .reduce((a, b) => (b.tokens.length > a.tokens.length ? b : a), {
        tokens: [] as readonly number[],
      });
    const cut = Math.min(excess, longest.tokens.length);
    if (cut === 0) throw tooLong(total, limit);
    const { tokens } = longest;
    longest.tokens = limit.policy === "truncate-left" ? tokens.slice(cut) : tokens.slice(0, -cut);
    excess -= cut;
  }
  return parts.flatMap((part) => part.tokens);
}

function tooLong(total: number, { contextTokens, maxNewTokens }: PromptLimit): SluiceError {
  const asked = `${total} tokens of prompt and ${maxNewTokens} of answer`;
  return new SluiceError("PROMPT_TOO_LONG", `${asked}, in a context of ${contextTokens}`);
}
