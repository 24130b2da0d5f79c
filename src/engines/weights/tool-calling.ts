import { SluiceError } from "../../foundation/errors.ts";
import type { Grammar } from "../../foundation/grammar.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import {
  type ChatMessage,
  type InferenceRequest,
  requestSeed,
} from "../../foundation/inference.ts";
import { isJsonObject, type JsonObject } from "../../foundation/json.ts";
import type { CallReading } from "./answer-text.ts";
import { type CallFormat, CallReader, callFormatOf } from "./call-formats.ts";
import type { ChatTemplate } from "./chat-template.ts";

/** The calls that an answer may have. */
export interface AskedCalls {
  format: CallFormat;
  /** The arguments of the tools that may be called, by the tools' names. */
  argumentGrammars: Readonly<Record<string, Grammar>>;
  /** Whether the answer must be a call. */
  isForced: boolean;
  isParallel: boolean;
}

/**
 * The calls that a request asks for; undefined if its answer calls nothing.
 *
 * @param templateOf gives the model's template, where the request needs it.
 * @throws SluiceError `PARAMETER_UNSUPPORTED` if the model's template has no tools, or calls in a
 *   form that is not known; `PARAMETER_INVALID` if `toolChoice` names no tool of the request.
 */
export function askedCalls(
  request: InferenceRequest,
  templateOf: () => ChatTemplate,
): AskedCalls | undefined {
  const { messages = [], tools = [], toolChoice = "auto", parallelToolCalls = true } = request;
  const isAsked = tools.length > 0 && toolChoice !== "none";
  const after = messages.findIndex(isOfTools);
  if (!isAsked && after < 0) return undefined;
  const field = isAsked ? "tools" : `messages[${after}]`;
  const template = templateOf();
  if (!template.takesTools) throw unsupported(field, "the model's chat template has no tools");
  if (!isAsked) return undefined;
  const format = callFormatOf(template.source);
  if (format === undefined) {
    throw unsupported(field, "the model's chat template shows calls in a form that is not known");
  }
  const names = calledNames(tools, toolChoice);
  const argumentGrammars = Object.fromEntries(
    names.map((name) => [name, grammarOf(request, name)] as const),
  );
  const isNamed = typeof toolChoice === "object";
  return {
    ...{ format, argumentGrammars, isForced: toolChoice !== "auto" },
    isParallel: parallelToolCalls && !isNamed,
  };
}

/** Whether a message calls a tool, or is what one answered. */
export function isOfTools(message: ChatMessage): boolean {
  return (
    message.role === "tool" || (message.role === "assistant" && message.toolCalls !== undefined)
  );
}

function calledNames(
  tools: readonly JsonObject[],
  choice: NonNullable<InferenceRequest["toolChoice"]>,
): string[] {
  const names = tools.map((tool) => nameOf(tool) ?? "");
  if (!isJsonObject(choice as JsonObject)) return names;
  const given = choice as JsonObject;
  if (given.type !== "function") {
    throw unsupported("toolChoice.type", "only a function can be chosen");
  }
  const chosen = nameOf(given);
  if (chosen !== undefined && names.includes(chosen)) return [chosen];
  throw new SluiceError("PARAMETER_INVALID", `toolChoice: ${chosen} is none of the tools`, {
    field: "toolChoice",
  });
}

function nameOf({ function: called = null }: JsonObject): string | undefined {
  return isJsonObject(called) && typeof called.name === "string" ? called.name : undefined;
}

function grammarOf({ argumentGrammars = {} }: InferenceRequest, name: string): Grammar {
  const grammar = Object.hasOwn(argumentGrammars, name) ? argumentGrammars[name] : undefined;
  if (grammar === undefined) throw unsupported("tools", `${name} has no grammar of its arguments`);
  return grammar;
}

function unsupported(field: string, detail: string): SluiceError {
  const hint = "take it out, or ask a model whose template has tools, or a server by engine openai";
  return new SluiceError("PARAMETER_UNSUPPORTED", `${field}: ${detail}`, { field, hint });
}

/**
 * How calls are found in the answers to a request, by the place of the answer.
 *
 * @param prompt the request's tokens: with its seed, they decide the ids of calls.
 */
export function callReadings(
  { format, argumentGrammars }: AskedCalls,
  request: InferenceRequest,
  prompt: readonly number[],
): (answer: number) => CallReading {
  const digest = sha256Hex(JSON.stringify([requestSeed(request), prompt]));
  return (answer) => ({
    reader: new CallReader(format, Object.keys(argumentGrammars)),
    // Of 9 letters and digits, as Mistral's templates want them.
    idOf: (place) => sha256Hex(`${digest}:${answer}:${place}`).slice(0, 9),
  });
}
