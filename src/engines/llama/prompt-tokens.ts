import { SluiceError } from "../../foundation/errors.ts";
import type { PromptTokens, TooLongPolicy } from "../../foundation/inference.ts";
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

/** The tokens of a prompt, part by part, before its first token and any cutting. */
export function tokenParts(
  pieces: readonly PromptPiece[],
  { tokenize }: Pick<PromptTokenizer, "tokenize">,
): PromptTokens {
  const parts: (readonly number[])[] = [];
  for (const [at, { kind, text }] of pieces.entries()) {
    if (isContentAt(parts.length) !== (kind === "content")) parts.push([]);
    parts.push(tokenize(text, kind === "template", at === 0));
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
