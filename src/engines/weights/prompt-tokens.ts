import { SluiceError } from "../../foundation/errors.ts";
import type { InferenceRequest, PromptTokens, TooLongPolicy } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import type { PromptPiece } from "./chat-template.ts";

/** What tokenizing a prompt needs of a model. */
export interface PromptTokenizer {
  /** `isFirst`: the text is at the start of the prompt. */
  tokenize(text: string, withSpecialTokens: boolean, isFirst: boolean): number[];
  /** The token at the start of a text, if the model needs one. */
  firstToken: number | undefined;
}

/** The longest prompt, and the treatment of a longer one. */
export interface PromptLimit {
  contextTokens: number;
  maxNewTokens: number;
  policy: TooLongPolicy;
}

/** A model's bounds for the prompts of requests. */
export interface PromptModel {
  contextTokens: number;
  /** The token at the start of a text, if the model needs one, and the begin-of-text token. */
  firstToken: number | undefined;
  bosToken: number | undefined;
}

/**
 * The tokens of a request's prompt, cut if it is too long and may be cut.
 *
 * @param tokens those of its parts, from `tokenParts`.
 * @throws SluiceError `PROMPT_TOO_LONG`; `REQUEST_REFUSED` for an empty prompt.
 */
export function requestTokens(
  request: InferenceRequest,
  tokens: PromptTokens,
  { contextTokens, firstToken, bosToken }: PromptModel,
): number[] {
  const { maxNewTokens, maxLength, prependBos, explicit } = request.parameters;
  // Room that a prompt must leave: the whole default limit was not requested.
  const room = explicit?.includes("maxNewTokens")
    ? maxNewTokens
    : Math.min(maxNewTokens, limits.maxNewTokens);
  const isChat = request.messages !== undefined;
  const wanted =
    isChat || prependBos === undefined ? firstToken : prependBos ? bosToken : undefined;
  const prompt = promptTokens(tokens, wanted, {
    contextTokens: Math.min(contextTokens, maxLength ?? contextTokens),
    // A length of prompt and answer together leaves the rest for the answer.
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

/** Like `tokenParts`, from the tokens of each piece. */
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
 * The tokens of a prompt, cut if it is too long and may be cut. Only contents are cut, never the
 * template around them: the longest content loses tokens first.
 *
 * @throws SluiceError `PROMPT_TOO_LONG` if it does not fit and must not be cut, or if nothing is
 *   left to cut.
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
