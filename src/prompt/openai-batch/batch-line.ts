import { SluiceError } from "../../foundation/errors.ts";
import type {
  ChatMessage,
  InferenceRequest,
  SamplingParameters,
  ToolChoice,
} from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { nearest, shown } from "../../foundation/suggest.ts";
import { messagesOfBody, type TakenOfChats } from "./body-messages.ts";
import { parametersOfBody, type RequestKind } from "./body-parameters.ts";
import { invalid, missing, unsupported } from "./request-faults.ts";
import { formatOfBody, type ResponseFormat } from "./response-forms.ts";

/** A parsed line of an OpenAI batch file. */
export interface BatchLine {
  kind: RequestKind;
  /** The model in the body; undefined if it names none. */
  model: string | undefined;
  messages?: readonly ChatMessage[];
  /** The prompts of a completion or an embedding; each of a list is a request of its own. */
  prompts?: readonly string[];
  /** The form that the answer must have; absent if any text will do. */
  format?: ResponseFormat;
  /** The tools that a chat may call and its tool choice, as a server takes them. */
  tools?: AskedTools;
  /** The parameters that the body sets; all others come from the job. */
  parameters: Partial<SamplingParameters>;
}

const kinds: Readonly<Record<string, RequestKind>> = {
  "/v1/chat/completions": "chat",
  "/v1/completions": "completion",
  "/v1/embeddings": "embedding",
};

/** Fields of a body beside its parameters; the first has the words. */
const ownFields = {
  chat: ["messages", "model", "response_format"],
  completion: ["prompt", "model", "response_format"],
  embedding: ["input", "model"],
} as const;

/** Most texts of one embedding or completion, the same as OpenAI's for embeddings. */
const maxInputs = 2048;

/**
 * Parses one line. A parameter that would change the answer and is not supported is an error.
 *
 * @param taken of chats by the engine.
 * @throws SluiceError `PARAMETER_MISSING`, `PARAMETER_INVALID`, `PARAMETER_UNSUPPORTED`,
 *   `URL_UNSUPPORTED`, each of which names the field.
 * @example
 * const body = { messages: [{ role: "user", content: "Hi" }], max_tokens: 5 };
 * const row = { custom_id: "1", method: "POST", url: "/v1/chat/completions", body };
 * readBatchLine(row, { callsTools: false, contentParts: [] }).parameters; // { maxNewTokens: 5 }
 */
export function readBatchLine(row: JsonObject, taken: TakenOfChats): BatchLine {
  const { custom_id: customId, method, url, body } = row;
  for (const field of ["custom_id", "method", "url", "body"]) {
    if (row[field] === undefined || row[field] === null) throw missing(field);
  }
  if (typeof customId !== "string" || customId === "") {
    throw invalid("custom_id", "a text that is not empty", customId!);
  }
  if (method !== "POST") throw invalid("method", "POST", method!);
  const kind = kindOf(url!);
  if (!isJsonObject(body)) throw invalid("body", "an object", body!);
  const { model = null } = body;
  if (model !== null && typeof model !== "string") throw invalid("body.model", "a text", model);
  const own = ownFields[kind];
  const tools = kind === "chat" ? toolsOfBody(body) : undefined;
  const parameters = parametersOfBody(body, kind, tools ? [...own, ...toolFields] : own);
  const line: BatchLine = { kind, model: model ?? undefined, parameters };
  const format = kind === "embedding" ? undefined : formatOfBody(body);
  if (format) line.format = format;
  if (tools) line.tools = tools;
  if (kind === "chat") line.messages = messagesOfBody(body, taken);
  else line.prompts = textsOf(body[own[0]], `body.${own[0]}`);
  return line;
}

type AskedTools = Pick<InferenceRequest, "tools" | "toolChoice" | "parallelToolCalls">;

const toolFields = ["tools", "tool_choice", "parallel_tool_calls"];

/** Members of a chat's body about tools; undefined if it names no tool. */
function toolsOfBody({
  tools,
  tool_choice: choice = null,
  parallel_tool_calls: parallel = null,
}: JsonObject): AskedTools | undefined {
  if (!Array.isArray(tools) || tools.length === 0) return undefined;
  for (const [at, tool] of tools.entries()) {
    const isFunction =
      isJsonObject(tool) && tool.type === "function" && isJsonObject(tool.function);
    if (isFunction && typeof (tool.function as JsonObject).name === "string") continue;
    throw invalid(`body.tools[${at}]`, "a function with a name", tool);
  }
  assertChoice(choice, tools as JsonObject[]);
  if (parallel !== null && typeof parallel !== "boolean") {
    throw invalid("body.parallel_tool_calls", "true or false", parallel);
  }
  return {
    tools: tools as JsonObject[],
    ...(choice !== null && { toolChoice: choice as ToolChoice }),
    ...(parallel !== null && { parallelToolCalls: parallel }),
  };
}

function assertChoice(choice: Json, tools: readonly JsonObject[]): void {
  const field = "body.tool_choice";
  if (!isJsonObject(choice)) {
    if (["none", "auto", "required", null].includes(choice as string)) return;
    throw invalid(field, "none, auto, required or a function", choice);
  }
  if (choice.type !== "function") return;
  const nameOf = ({ function: called = null }: JsonObject) =>
    isJsonObject(called) ? called.name : undefined;
  const name = nameOf(choice) ?? null;
  if (tools.some((tool) => nameOf(tool) === name)) return;
  throw invalid(`${field}.function.name`, "the name of one of the tools", name);
}

function kindOf(url: Json): RequestKind {
  if (typeof url === "string" && Object.hasOwn(kinds, url)) return kinds[url]!;
  const known = Object.keys(kinds);
  const meant = typeof url === "string" ? nearest(url, known) : undefined;
  const hint = meant === undefined ? `known are ${known.join(", ")}` : `did you mean ${meant}?`;
  throw new SluiceError("URL_UNSUPPORTED", `${shown(url)}; ${hint}`, { field: "url" });
}

function textsOf(value: Json | undefined, field: string): string[] {
  if (value === undefined || value === null) throw missing(field);
  const texts = Array.isArray(value) ? value : [value];
  if (texts.length > maxInputs) throw unsupported(field, `a list of more than ${maxInputs}`);
  if (texts.some((text) => typeof text === "number" || Array.isArray(text))) {
    throw unsupported(field, "tokens in place of text");
  }
  if (texts.length === 0 || texts.some((text) => typeof text !== "string")) {
    throw invalid(field, "a text or a list of texts", value);
  }
  return texts as string[];
}
