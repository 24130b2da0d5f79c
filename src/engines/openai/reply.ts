import { SluiceError } from "../../foundation/errors.ts";
import type { Answer, FinishReason, Usage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { HttpReply } from "./transport.ts";

/** What a 200 says. */
export interface ReadReply {
  answer: Answer;
  usage: Usage;
}

/** How other servers name the ends of an answer; whatever is not here ended as `stop`. */
const finishReasons: Record<string, FinishReason> = {
  length: "length",
  max_tokens: "length",
  content_filter: "error",
  error: "error",
};

/**
 * Reads the body of a chat or completion reply. Token counts that a server leaves out are 0.
 *
 * @throws SluiceError `RESPONSE_MALFORMED` when it is no such reply, `ANSWER_EMPTY` when it holds
 *   no choice, or a choice without text.
 * @param redact takes secrets out of what is quoted from the body.
 */
export function readReply(
  reply: HttpReply,
  form: "chat" | "completion",
  redact: (text: string) => string,
): ReadReply {
  const body = parse(reply, redact);
  if (!Array.isArray(body.choices)) throw malformed(`choices is ${kindOf(body.choices)}`);
  const choice = body.choices[0];
  if (choice === undefined) throw new SluiceError("ANSWER_EMPTY");
  if (!isJsonObject(choice)) throw malformed(`choices[0] is ${kindOf(choice)}`);
  const finish = choice.finish_reason;
  const text = textOf(choice, form);
  if (text === null) {
    throw new SluiceError("ANSWER_EMPTY", `a choice without text, finish_reason ${finish}`, {
      hint: "a reasoning model may need more generation.maxNewTokens",
    });
  }
  const usage = usageOf(body.usage);
  const finishReason = (typeof finish === "string" && finishReasons[finish]) || "stop";
  return { answer: { text, finishReason, tokens: usage.completionTokens }, usage };
}

function parse({ text, headers }: HttpReply, redact: (text: string) => string): JsonObject {
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

function usageOf(usage: Json | undefined): Usage {
  if (!isJsonObject(usage)) return { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
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

function kindOf(value: Json | undefined): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `of type ${typeof value}`;
}

function malformed(detail: string): SluiceError {
  return new SluiceError("RESPONSE_MALFORMED", detail);
}
