import { SluiceError } from "../../foundation/errors.ts";
import type { TooLongPolicy } from "../../foundation/inference.ts";
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

/**
 * The tokens of a prompt, cut where it is too long and may be cut. Only contents are cut, never the
 * template around them: the longest content loses tokens first.
 *
 * @throws SluiceError `PROMPT_TOO_LONG` when it does not fit and may not be cut, or when nothing
 *   is left to cut.
 */
export function promptTokens(
  pieces: readonly PromptPiece[],
  tokenizer: PromptTokenizer,
  limit: PromptLimit,
): number[] {
  const parts = pieces.map((piece, at) => ({
    isContent: piece.kind === "content",
    tokens: tokenizer.tokenize(piece.text, piece.kind === "template", at === 0),
  }));
  const { firstToken } = tokenizer;
  if (firstToken !== undefined && parts[0]?.tokens[0] !== firstToken) {
    parts.unshift({ isContent: false, tokens: [firstToken] });
  }
  const total = parts.reduce((sum, part) => sum + part.tokens.length, 0);
  let excess = total + limit.maxNewTokens - limit.contextTokens;
  if (excess > 0 && limit.policy === "fail") throw tooLong(total, limit);
  while (excess > 0) {
    const longest = parts
      .filter((part) => part.isContent)
      .reduce((a, b) => (b.tokens.length > a.tokens.length ? b : a), { tokens: [] as number[] });
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
