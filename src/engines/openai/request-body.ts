import {
  type AnswerStructure,
  type ChatMessage,
  type ContentPart,
  greedyParameters,
  type InferenceRequest,
  leftOutParameters,
  type SamplingParameters,
  type SlottedLine,
} from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { lineGrammar } from "../line-grammar.ts";
import { grammarFields, type StructuredOutput, structureFields } from "./structured-output.ts";

/** The values with which parameters are left out. */
const neutral = { ...greedyParameters, ...leftOutParameters };

/** A parameter, and a server's name for it. */
type Field = readonly [parameter: Exclude<keyof typeof neutral, "stop">, field: string];

const commonFields: readonly Field[] = [
  ["presencePenalty", "presence_penalty"],
  ["frequencyPenalty", "frequency_penalty"],
  ["numReturnSequences", "n"],
];

/** Beyond OpenAI's documentation; vLLM and SGLang have these names, most others too. */
const extraFields: readonly Field[] = [
  ["topK", "top_k"],
  ["minP", "min_p"],
  ["repetitionPenalty", "repetition_penalty"],
  ["ignoreEos", "ignore_eos"],
];

/**
 * Writes request bodies. Common parts of many requests are serialised once: the model, and the
 * parameters as long as the same object comes again.
 */
export class RequestWriter {
  readonly #model: string;
  readonly #isOpenaiItself: boolean;
  readonly #structuredOutput: StructuredOutput;
  #structure: AnswerStructure | undefined;
  #structureTail = "";
  #parameters: SamplingParameters | undefined;
  #chatTail = "";
  #completionTail = "";

  /**
   * @param isOpenaiItself leaves out what api.openai.com would refuse.
   * @param extraBody further members of every body.
   */
  constructor(
    model: string,
    isOpenaiItself: boolean,
    structuredOutput: StructuredOutput = "response-format",
    extraBody: JsonObject = {},
  ) {
    this.#model = `{${bodyFields(model, extraBody)},`;
    this.#isOpenaiItself = isOpenaiItself;
    this.#structuredOutput = structuredOutput;
  }

  /**
   * The JSON text for a request: a chat if it has messages, else a completion.
   *
   * @param image address of an image in the chat.
   */
  write(request: InferenceRequest, image?: string): string {
    if (request.parameters !== this.#parameters) this.#setParameters(request.parameters);
    const body =
      request.messages === undefined
        ? `${this.#model}"prompt":${JSON.stringify(request.prompt ?? "")}${this.#completionTail}`
        : this.#chat(request.messages, request, image);
    const { structure, slottedLine } = request;
    if (structure !== undefined) return body.slice(0, -1) + this.#structured(structure, request);
    if (slottedLine !== undefined) return body.slice(0, -1) + this.#slotted(slottedLine);
    return body;
  }

  #chat(
    messages: readonly ChatMessage[],
    { tools, toolChoice, parallelToolCalls }: InferenceRequest,
    image: string | undefined,
  ): string {
    const body = `${this.#model}"messages":${messagesJson(messages, image)}${this.#chatTail}`;
    const asked = { tools, tool_choice: toolChoice, parallel_tool_calls: parallelToolCalls };
    const isAsked = Object.values(asked).some((value) => value !== undefined);
    return isAsked ? body.slice(0, -1) + tail(asked) : body;
  }

  #slotted(line: SlottedLine): string {
    const by = this.#structuredOutput;
    // A schema cannot express it, and a grammar for each row takes time to make.
    if (by === "response-format" || by === "none") return "}";
    return tail(grammarFields(lineGrammar(line, ""), by));
  }

  /** Replaces a body's last brace. */
  #structured(structure: AnswerStructure, { messages }: InferenceRequest): string {
    // Its completions have no schema.
    if (this.#isOpenaiItself && messages === undefined) return "}";
    if (structure !== this.#structure) {
      const fields = structureFields(structure, this.#structuredOutput);
      this.#structure = structure;
      this.#structureTail = Object.keys(fields).length === 0 ? "}" : tail(fields);
    }
    return this.#structureTail;
  }

  #setParameters(parameters: SamplingParameters): void {
    this.#parameters = parameters;
    const fields = sampling(parameters, this.#isOpenaiItself);
    const { maxNewTokens, explicit = [], logprobs = 0 } = parameters;
    // Without a written limit the server uses its own, which may be none.
    const limit = explicit.includes("maxNewTokens") ? maxNewTokens : undefined;
    const chatLimit = this.#isOpenaiItself ? "max_completion_tokens" : "max_tokens";
    const chatLogprobs = logprobs > 0 ? { logprobs: true, top_logprobs: logprobs } : {};
    const completionLogprobs = logprobs > 0 ? { logprobs } : {};
    this.#chatTail = tail({ [chatLimit]: limit, ...fields, ...chatLogprobs });
    this.#completionTail = tail({ max_tokens: limit, ...fields, ...completionLogprobs });
  }
}

/** An image comes before the text of the user's first message. */
function messagesJson(messages: readonly ChatMessage[], image: string | undefined): string {
  const shown = image === undefined ? -1 : messages.findIndex(({ role }) => role === "user");
  return JSON.stringify(
    messages.map((message, at) => sent(message, at === shown ? image : undefined)),
  );
}

/** A message in the servers' form; a message of text alone is the same. */
function sent(message: ChatMessage, image: string | undefined): object {
  const { role, content } = message;
  const words = typeof content === "string" ? content : content.map(sentPart);
  if (role === "tool") return { role, content: words, tool_call_id: message.toolCallId };
  if (role === "assistant" && message.toolCalls !== undefined) {
    return { role, content: content.length === 0 ? null : words, tool_calls: message.toolCalls };
  }
  if (image === undefined) return { role, content: words };
  const parts = typeof words === "string" ? [{ type: "text", text: words }] : words;
  return { role, content: [sentPart({ type: "image", url: image }), ...parts] };
}

function sentPart(part: ContentPart): object {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "image": {
      const { type: _, ...image } = part;
      return { type: "image_url", image_url: image };
    }
    case "audio": {
      const { type: _, ...audio } = part;
      return { type: "input_audio", input_audio: audio };
    }
  }
}

/** The JSON at the beginning of every body: the model, and the job's own members. */
export function bodyFields(model: string, extraBody: JsonObject = {}): string {
  return JSON.stringify({ model, ...extraBody }).slice(1, -1);
}

function tail(fields: Record<string, unknown>): string {
  return `,${JSON.stringify(fields).slice(1)}`;
}

function sampling(parameters: SamplingParameters, isOpenaiItself: boolean) {
  const { stop, explicit = [] } = parameters;
  const fields: Record<string, unknown> = {
    temperature: parameters.temperature,
    top_p: parameters.topP,
  };
  // A drawn one would give equal prompts the same answer.
  if (explicit.includes("seed")) fields.seed = parameters.seed;
  // Some servers refuse an empty list, and none has stop texts of its own.
  if (stop.length > 0) fields.stop = stop;
  const optional = isOpenaiItself ? commonFields : [...commonFields, ...extraFields];
  for (const [parameter, field] of optional) {
    const value = parameters[parameter] ?? neutral[parameter];
    // A server may have its own default, which a written value must override.
    if (value !== neutral[parameter] || explicit.includes(parameter)) fields[field] = value;
  }
  return fields;
}
