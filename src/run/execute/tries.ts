import { backoffMs } from "../../foundation/backoff.ts";
import { type Clock, sleep } from "../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import {
  type Answer,
  type InferenceRequest,
  type InferenceResponse,
  noUsage,
  type SamplingParameters,
  type Usage,
} from "../../foundation/inference.ts";
import type { Random } from "../../foundation/random.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";

export interface TryOptions {
  promptSet: PromptSet;
  /** Tries of one request, the first included. */
  maxTries: number;
  random: Random;
}

export interface Try {
  request: InferenceRequest;
  /** Correct answers of earlier tries: only the others are requested again. */
  kept?: KeptAnswers | undefined;
}

export interface KeptAnswers {
  answers: readonly Answer[];
  /** Tokens of the answers that were paid for. */
  paidTokens: number;
}

/** At least one of several answers has the wrong form; the message says what is wrong. */
export class InvalidAnswers extends SluiceError {
  /** Text of the first wrong answer. */
  readonly text: string;
  /** Correct answers of this and earlier tries. */
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
 * @throws InvalidAnswers if not all have the form; other errors of `PromptSet.accept`.
 */
export function acceptAnswers(
  tried: Try,
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
 * The next request after a failed try, and its time: at once after a wrong answer, else after a
 * growing wait. Undefined if the request has failed for good.
 *
 * @param original the first request.
 * @param tries so far, all failed.
 */
export function tryAfter(
  original: InferenceRequest,
  failed: Try,
  error: SluiceError,
  tries: number,
  { promptSet, maxTries, random }: TryOptions,
): { next: Try; delayMs: number } | undefined {
  if (!error.retryable || tries >= maxTries) return undefined;
  if (error instanceof InvalidAnswers) {
    return { next: nextTry(original, failed.request, error, promptSet), delayMs: 0 };
  }
  const delayMs = backoffMs(tries, random, undefined, error.retryAfterMs);
  return { next: failed, delayMs };
}

/**
 * Sends a request until an answer is accepted, for callers that wait for one row. The executor,
 * which fills an engine with the rows of many tasks, also uses `tryAfter`.
 *
 * @param send sends a request to the engine.
 * @param accept takes a response or throws its fault; default: checks the form of its answers.
 * @throws SluiceError the failure of the last try, and at once one that may not pass; the reason of
 *   the signal.
 */
export async function sendUntilAccepted(
  send: (request: InferenceRequest) => Promise<InferenceResponse>,
  request: InferenceRequest,
  options: TryOptions & {
    clock: Clock;
    signal: AbortSignal;
    accept?(response: InferenceResponse): InferenceResponse;
    /** Called with the cost of each try, whether its answer was taken or not. */
    addUsage?(usage: Usage): void;
    /** Whether a failure may pass; default: those of scope `row`. */
    mayPass?(error: SluiceError): boolean;
  },
): Promise<InferenceResponse> {
  const { clock, signal, promptSet, accept, addUsage } = options;
  const { mayPass = ({ scope }: SluiceError) => scope === "row" } = options;
  let tried: Try = { request };
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted();
    try {
      const response = await send(tried.request);
      if (!response.reused) addUsage?.(response.usage);
      return accept?.(response) ?? acceptAnswers(tried, response, promptSet);
    } catch (thrown) {
      signal.throwIfAborted();
      const error = asSluiceError(thrown);
      if (error.paid) addUsage?.(error.paid);
      if (!mayPass(error)) throw error;
      const after = tryAfter(request, tried, error, tries, options);
      if (!after) throw error;
      tried = after.next;
      if (after.delayMs > 0) await sleep(clock, after.delayMs, signal);
    }
  }
}

/**
 * The next try of a request: for the missing answers, with the wrong one shown. A completion cannot
 * show it and gets new seeds: the same ones would give the same answers.
 *
 * @param original the first request; `request` is the try before.
 */
function nextTry(
  original: InferenceRequest,
  request: InferenceRequest,
  { text, message, kept }: InvalidAnswers,
  promptSet: PromptSet,
): Try {
  const again = promptSet.reask(original, text, message);
  const { numReturnSequences = 1 } = original.parameters;
  const parameters = { ...original.parameters };
  if (kept.answers.length > 0) {
    parameters.numReturnSequences = numReturnSequences - kept.answers.length;
  }
  if (again.messages === undefined) parameters.seed = seedAfter(request.parameters);
  return { request: { ...again, parameters }, kept };
}

/** The cost of a try beyond its kept answers. */
export function lostUsage(
  { usage }: InferenceResponse,
  before: KeptAnswers | undefined,
  after: KeptAnswers | undefined,
): Usage {
  const kept = (after?.paidTokens ?? 0) - (before?.paidTokens ?? 0);
  return { ...usage, completionTokens: Math.max(0, usage.completionTokens - kept) };
}

/** The cost of kept answers that are not taken after all. */
export function usageOf({ paidTokens }: KeptAnswers): Usage {
  return { ...noUsage, completionTokens: paidTokens };
}

/** Each answer to one prompt has the seed after that of the answer before it. */
function seedAfter({ seed, numReturnSequences = 1 }: SamplingParameters): number {
  return (seed + numReturnSequences) % 2 ** 32;
}

function withKept(response: InferenceResponse, kept: KeptAnswers): InferenceResponse {
  const { reused, ...rest } = response;
  const isFree = reused === true && kept.paidTokens === 0;
  const answers = [...kept.answers, ...response.answers];
  return { ...rest, answers, ...(isFree && { reused }) };
}

/** Checks the answers one by one, to find the wrong ones. */
function invalidAmong(
  { request, kept }: Try,
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
      first ??= { text: writtenText(answer), problem: asSluiceError(thrown) };
    }
  }
  const { text, problem: found } = first ?? { text: "", problem };
  return new InvalidAnswers(found, text, { answers, paidTokens });
}

/** An answer as the next try shows it to the model. */
function writtenText({ text, toolCalls = [] }: Answer): string {
  const calls = toolCalls.map(({ function: called }) => JSON.stringify(called));
  return [text, ...calls].filter((part) => part !== "").join("\n");
}
