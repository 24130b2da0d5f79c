import { SluiceError } from "../../foundation/errors.ts";
import {
  type Answer,
  type FinishReason,
  noUsage,
  type SamplingParameters,
  type TokenAlternative,
  type TokenLogprob,
  type ToolCall,
  type Usage,
} from "../../foundation/inference.ts";
import { isDeeperThan, isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { Answered } from "./call.ts";
import type { HttpReply } from "./transport.ts";

/** The request, which the reply must fulfil. */
type Asked = Pick<SamplingParameters, "numReturnSequences" | "logprobs">;

/** Other servers' names for the ends of an answer; any other name means `stop`. */
const finishReasons: Record<string, FinishReason> = {
  length: "length",
  max_tokens: "length",
  content_filter: "error",
  error: "error",
};

/**
 * Reads the body of a chat or completion reply. Token counts that a server leaves out are 0.
 * Servers count the tokens of several answers only in sum: those of each are its log-probabilities,
 * or a share of the sum by the length of its text.
 *
 * @throws SluiceError `RESPONSE_MALFORMED` if it is not such a reply or holds less than the
 *   request, `ANSWER_EMPTY` if it holds no choice, or a choice without text.
 * @param redact removes secrets from quotations of the body.
 */
export function readReply(
  reply: HttpReply,
  form: "chat" | "completion",
  asked: Asked,
  redact: (text: string) => string,
): Answered {
  return readAnswers(parseReply(reply, redact), form, asked);
}

/** The same for a body that was parsed already; errors as `readReply`, with the tokens as paid. */
export function readAnswers(body: JsonObject, form: "chat" | "completion", asked: Asked): Answered {
  const usage = usageOf(body.usage);
  try {
    return { answers: answersIn(body, form, asked, usage), usage };
  } catch (error) {
    const isPaid = usage.promptTokens + usage.completionTokens > 0;
    if (isPaid && error instanceof SluiceError) error.paid = usage;
    throw error;
  }
}

function answersIn(
  { choices }: JsonObject,
  form: "chat" | "completion",
  asked: Asked,
  { completionTokens }: Usage,
): Answer[] {
  if (!Array.isArray(choices)) throw malformed(`choices is ${kindOf(choices)}`);
  if (choices.length === 0) throw new SluiceError("ANSWER_EMPTY");
  const { numReturnSequences: count = 1, logprobs = 0 } = asked;
  if (choices.length < count) {
    throw malformed(
      `it holds ${choices.length} of ${count} answers (generation.numReturnSequences)`,
    );
  }
  const [first = null] = choices;
  if (count === 1 && choices.length === 1 && isJsonObject(first)) {
    const answer = answerOf(first, form, logprobs);
    return [{ ...answer, tokens: completionTokens }];
  }
  const answers = inOrder(choices, count).map((choice) => answerOf(choice, form, logprobs));
  return withTokens(answers, completionTokens);
}

function inOrder(choices: readonly Json[], count: number): JsonObject[] {
  const objects = choices.map((choice, at) => {
    if (!isJsonObject(choice)) throw malformed(`choices[${at}] is ${kindOf(choice)}`);
    return choice;
  });
  // A server may return more than requested, in another order.
  return objects.sort((a, b) => countOf(a.index) - countOf(b.index)).slice(0, count);
}

function answerOf(choice: JsonObject, form: "chat" | "completion", logprobs: number): Answer {
  const finish = choice.finish_reason;
  const message = isJsonObject(choice.message) ? choice.message : {};
  const { tool_calls: calls } = message;
  const hasCalls = Array.isArray(calls) && calls.length > 0;
  if (hasCalls && isDeeperThan(limits.maxReplyDepth, calls)) throw malformed("its calls are deep");
  // With tool calls, a server may return no text, or leave the member out.
  const text = hasCalls && typeof message.content !== "string" ? "" : textOf(choice, form);
  if (text === null) {
    const reason = typeof finish === "string" ? finish : kindOf(finish);
    throw new SluiceError("ANSWER_EMPTY", `a choice without text, finish_reason ${reason}`, {
      hint: "a reasoning model may need more generation.maxNewTokens",
    });
  }
  const known = typeof finish === "string" && Object.hasOwn(finishReasons, finish);
  const finishReason = known ? finishReasons[finish]! : "stop";
  const answer: Answer = {
    text,
    finishReason,
    tokens: 0,
    ...(hasCalls && { toolCalls: calls as ToolCall[] }),
  };
  if (logprobs === 0) return answer;
  const read = readLogprobs(choice.logprobs, logprobs);
  if (read === undefined && text !== "")
    throw malformed("it has no logprobs (generation.logprobs)");
  return { ...answer, logprobs: read ?? [] };
}

function withTokens(answers: readonly Answer[], completionTokens: number): Answer[] {
  const [only] = answers;
  if (only !== undefined && answers.length === 1) return [{ ...only, tokens: completionTokens }];
  const counted = answers.map(({ logprobs }) => logprobs?.length ?? 0);
  const isCounted = counted.reduce((sum, tokens) => sum + tokens, 0) === completionTokens;
  if (isCounted) return answers.map((answer, at) => ({ ...answer, tokens: counted[at]! }));
  const characters = answers.reduce((sum, { text }) => sum + text.length, 0);
  let before = 0;
  return answers.map((answer) => {
    const upTo = (place: number) =>
      Math.round((completionTokens * place) / Math.max(1, characters));
    const tokens = upTo(before + answer.text.length) - upTo(before);
    before += answer.text.length;
    return { ...answer, tokens };
  });
}

/**
 * The body of a reply.
 * @throws SluiceError `RESPONSE_MALFORMED` if it is not a JSON object.
 */
export function parseReply(
  { text, headers }: HttpReply,
  redact: (text: string) => string,
): JsonObject {
  let body: Json;
  try {
    body = JSON.parse(text) as Json;
  } catch (error) {
    const type = headers["content-type"] ?? "no content type";
    const start = redact(text).slice(0, 80);
    throw malformed(`${(error as Error).name}, ${type}, begins with ${JSON.stringify(start)}`);
  }
  if (!isJsonObject(body)) throw malformed(`the body is ${kindOf(body)}`);
  return body;
}

function textOf(choice: JsonObject, form: "chat" | "completion"): string | null {
  let text = choice.text;
  if (form === "chat") {
    if (!isJsonObject(choice.message)) throw malformed(`message is ${kindOf(choice.message)}`);
    text = choice.message.content;
  }
  if (typeof text === "string" || text === null) return text;
  throw malformed(`the text of the answer is ${kindOf(text)}`);
}

/** A reply's token counts; none if they are absent. */
export function usageOf(usage: Json | undefined): Usage {
  if (!isJsonObject(usage)) return noUsage;
  const details = usage.prompt_tokens_details;
  return {
    promptTokens: countOf(usage.prompt_tokens),
    cachedTokens: isJsonObject(details) ? countOf(details.cached_tokens) : 0,
    completionTokens: countOf(usage.completion_tokens),
  };
}

function countOf(value: Json | undefined): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

/** An unexpected value, for messages. */
export function kindOf(value: Json | undefined): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `of type ${typeof value}`;
}

/** The error for an unexpected reply. */
export function malformed(detail: string): SluiceError {
  return new SluiceError("RESPONSE_MALFORMED", detail);
}

/** JSON has no infinity; servers write this, or null, for an excluded token. */
const leastLogprob = -9999;

/**
 * The log-probabilities of a choice, in the form of chats (`content`) or of completions (`tokens`),
 * each token with at most `count` alternatives. Undefined if there are none.
 */
function readLogprobs(logprobs: Json | undefined, count: number) {
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

/** Some servers add the chosen token to the alternatives; it is already reported beside them. */
function likeliest(alternatives: readonly TokenAlternative[], count: number): TokenAlternative[] {
  return alternatives.toSorted((a, b) => b.logprob - a.logprob).slice(0, count);
}

/** Some servers give the numbers of tokens; any other value counts as none. */
function tokenText(token: Json | undefined): string {
  return typeof token === "string" || typeof token === "number" ? String(token) : "";
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function finite(value: Json | undefined): number {
  return typeof value === "number" ? Math.max(value, leastLogprob) : leastLogprob;
}
