import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import {
  type Answer,
  type GenerationParameters,
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type Usage,
} from "../../foundation/inference.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";

/** One try of a request whose answers must have a form. */
export interface FormTry {
  request: InferenceRequest;
  /** Answers of earlier tries that have it: only the others are asked again. */
  kept?: KeptAnswers | undefined;
}

export interface KeptAnswers {
  answers: readonly Answer[];
  /** Tokens of those that were paid for. */
  paidTokens: number;
}

/** One of several answers at least does not have the form; its message says what is wrong. */
export class InvalidAnswers extends SluiceError {
  /** Text of the first that is wrong. */
  readonly text: string;
  /** Those that are right, of this try and of earlier ones. */
  readonly kept: KeptAnswers;

  constructor(problem: SluiceError, text: string, kept: KeptAnswers) {
    super(problem.code, "", { ...problem.place, hint: problem.hint, cause: problem });
    this.message = problem.message;
    this.text = text;
    this.kept = kept;
  }
}

/**
 * The response with every answer of the request, those of earlier tries first.
 *
 * @throws InvalidAnswers when not all have the form; what else `PromptSet.accept` throws.
 */
export function acceptAnswers(
  tried: FormTry,
  response: InferenceResponse,
  promptSet: PromptSet,
): InferenceResponse {
  const { request, kept } = tried;
  try {
    const accepted = promptSet.accept(request, response);
    return kept === undefined ? accepted : withKept(accepted, kept);
  } catch (thrown) {
    if (!(thrown instanceof SluiceError) || thrown.code !== "ANSWER_INVALID") throw thrown;
    throw invalidAmong(tried, response, thrown, promptSet);
  }
}

/**
 * The next try of a request: for as many answers as are missing, with the wrong one shown. A
 * completion shows nothing, and gets seeds that were not asked yet: with the same ones it would be
 * answered the same.
 *
 * @param original the request as it was first asked; `request` is the try before.
 */
export function nextTry(
  original: InferenceRequest,
  request: InferenceRequest,
  { text, message, kept }: InvalidAnswers,
  promptSet: PromptSet,
): FormTry {
  const again = promptSet.reask(original, text, message);
  const { numReturnSequences = 1 } = original.parameters;
  const parameters = { ...original.parameters };
  if (kept.answers.length > 0) {
    parameters.numReturnSequences = numReturnSequences - kept.answers.length;
  }
  if (again.messages === undefined) parameters.seed = seedAfter(request.parameters);
  return { request: { ...again, parameters }, kept };
}

/** What a try cost beyond the answers that are kept of it. */
export function lostUsage(
  { usage }: InferenceResponse,
  before: KeptAnswers | undefined,
  after: KeptAnswers | undefined,
): Usage {
  const kept = (after?.paidTokens ?? 0) - (before?.paidTokens ?? 0);
  return { ...usage, completionTokens: Math.max(0, usage.completionTokens - kept) };
}

/** What answers cost that were kept and are not taken after all. */
export function usageOf({ paidTokens }: KeptAnswers): Usage {
  return { ...noUsage, completionTokens: paidTokens };
}

/** Each answer to one prompt has the seed after that of the answer before it. */
function seedAfter({ seed, numReturnSequences = 1 }: GenerationParameters): number {
  return (seed + numReturnSequences) % 2 ** 32;
}

function withKept(response: InferenceResponse, kept: KeptAnswers): InferenceResponse {
  const { reused, ...rest } = response;
  const isFree = reused === true && kept.paidTokens === 0;
  const answers = [...kept.answers, ...response.answers];
  return { ...rest, answers, ...(isFree && { reused }) };
}

/** Takes the answers one by one, to see which of them are wrong. */
function invalidAmong(
  { request, kept }: FormTry,
  response: InferenceResponse,
  problem: SluiceError,
  promptSet: PromptSet,
): InvalidAnswers {
  const single = { ...request, parameters: { ...request.parameters, numReturnSequences: 1 } };
  const answers: Answer[] = [...(kept?.answers ?? [])];
  let paidTokens = kept?.paidTokens ?? 0;
  let first: { text: string; problem: SluiceError } | undefined;
  for (const answer of response.answers) {
    try {
      answers.push(...promptSet.accept(single, { ...response, answers: [answer] }).answers);
      if (!response.reused) paidTokens += answer.tokens;
    } catch (thrown) {
      first ??= { text: answer.text, problem: asSluiceError(thrown) };
    }
  }
  const { text, problem: found } = first ?? { text: "", problem };
  return new InvalidAnswers(found, text, { answers, paidTokens });
}
