import type {
  ChatMessage,
  ContentPart,
  TextMessage,
  ToolCall,
} from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { shown } from "../../foundation/suggest.ts";
import { invalid, missing, unsupported, withoutToolMessages } from "./request-faults.ts";

/** What an engine takes of a chat beside text. */
export interface TakenOfChats {
  /** True if a chat may have tools, and messages with their calls and results. */
  callsTools: boolean;
  /** The parts that messages of the user may have beside text. */
  contentParts: readonly ("image" | "audio")[];
}

/** OpenAI's newer name for the system role is `developer`. */
const roles: Readonly<Record<string, TextMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
};

const callFields: ReadonlySet<string> = new Set(["function_call", "tool_calls", "tool_call_id"]);

/**
 * The messages of a chat body. Content may be a text or parts; parts of text alone are joined by
 * line breaks.
 *
 * @throws SluiceError `PARAMETER_MISSING`, `PARAMETER_INVALID`, `PARAMETER_UNSUPPORTED` (tool
 *   calls, images and audio that the engine does not take), which names the field, such as
 *   `body.messages[1].content`.
 */
export function messagesOfBody(body: JsonObject, taken: TakenOfChats): ChatMessage[] {
  const { messages } = body;
  if (messages === undefined || messages === null) throw missing("body.messages");
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalid("body.messages", "a list of messages", messages);
  }
  /** Names of called tools by the ids of the calls. */
  const called = new Map<Json | undefined, string>();
  return messages.map((given, at) => {
    const message = messageOf(withoutCalledName(given, called), `body.messages[${at}]`, taken);
    const calls = message.role === "assistant" ? (message.toolCalls ?? []) : [];
    for (const call of calls) called.set(call.id, call.function.name);
    return message;
  });
}

/** Clients of agents name the tool in its result; its call says the same. */
function withoutCalledName(message: Json, called: ReadonlyMap<Json | undefined, string>): Json {
  if (!isJsonObject(message) || message.role !== "tool") return message;
  const { name, ...rest } = message;
  return name === called.get(message.tool_call_id) ? rest : message;
}

function messageOf(message: Json, field: string, taken: TakenOfChats): ChatMessage {
  if (!isJsonObject(message)) throw invalid(field, "an object", message);
  const { role } = message;
  if (role === undefined || role === null) throw missing(`${field}.role`);
  if (role === "tool" && taken.callsTools) return toolResult(message, field);
  if (role === "tool" || role === "function") {
    throw unsupported(`${field}.role`, `${role}; ${withoutToolMessages}`);
  }
  if (typeof role !== "string" || !Object.hasOwn(roles, role)) {
    const known = [...Object.keys(roles), ...(taken.callsTools ? ["tool"] : [])];
    throw invalid(`${field}.role`, `one of ${known.join(", ")}`, role);
  }
  const calls = role === "assistant" && taken.callsTools ? callsOf(message, field) : [];
  const own = calls.length > 0 ? ["role", "content", "tool_calls"] : ["role", "content"];
  assertEmpty(message, own, field);
  const { content = null } = message;
  if (calls.length > 0) {
    const text = content === null ? "" : contentOf(content, `${field}.content`, []);
    return { role: "assistant", content: text, toolCalls: calls };
  }
  if (content === null) throw missing(`${field}.content`);
  const parts = role === "user" ? taken.contentParts : [];
  return { role: roles[role]!, content: contentOf(content, `${field}.content`, parts) };
}

function assertEmpty(message: JsonObject, own: readonly string[], field: string): void {
  for (const name in message) {
    const value = message[name];
    const isEmpty = value === null || (Array.isArray(value) && value.length === 0);
    if (isEmpty || own.includes(name)) continue;
    throw unsupported(`${field}.${name}`, callFields.has(name) ? withoutToolMessages : "");
  }
}

function toolResult(message: JsonObject, field: string): ChatMessage {
  const { content = null, tool_call_id: id = null } = message;
  assertEmpty(message, ["role", "content", "tool_call_id"], field);
  if (id === null) throw missing(`${field}.tool_call_id`);
  if (typeof id !== "string") throw invalid(`${field}.tool_call_id`, "a text", id);
  if (content === null) throw missing(`${field}.content`);
  return { role: "tool", content: contentOf(content, `${field}.content`, []), toolCallId: id };
}

/** The calls of an assistant's message; empty if it has none. */
function callsOf({ tool_calls: calls = null }: JsonObject, messageField: string): ToolCall[] {
  if (calls === null) return [];
  const field = `${messageField}.tool_calls`;
  if (!Array.isArray(calls)) throw invalid(field, "a list of calls", calls);
  return calls.map((call, at) => {
    const { id, type, function: called = null } = isJsonObject(call) ? call : {};
    const { name, arguments: given } = isJsonObject(called) ? called : {};
    if (typeof id !== "string" || type !== "function" || typeof name !== "string") {
      throw invalid(`${field}[${at}]`, "a call of a function, with id and name", call);
    }
    if (typeof given !== "string") {
      throw invalid(`${field}[${at}].function.arguments`, "a text of JSON", given ?? null);
    }
    return { id, type, function: { name, arguments: given } };
  });
}

function contentOf(
  content: Json,
  field: string,
  taken: TakenOfChats["contentParts"],
): string | ContentPart[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw invalid(field, "a text or a list of parts", content);
  const parts = content.map((part, at) => partOf(part, `${field}[${at}]`, taken));
  const texts = parts.flatMap((part) => (part.type === "text" ? part.text : []));
  return texts.length === parts.length ? texts.join("\n") : parts;
}

function partOf(part: Json, field: string, taken: TakenOfChats["contentParts"]): ContentPart {
  if (typeof part === "string") return { type: "text", text: part };
  if (!isJsonObject(part)) throw invalid(field, "an object", part);
  const { type = null } = part;
  if (type === "image_url" && taken.includes("image")) return imageOf(part, field);
  if (type === "input_audio" && taken.includes("audio")) return audioOf(part, field);
  if (type !== "text") {
    throw unsupported(`${field}.type`, `${shown(type)}; ${withoutParts(taken)}`);
  }
  if (typeof part.text !== "string") throw missing(`${field}.text`);
  return { type: "text", text: part.text };
}

function withoutParts(taken: TakenOfChats["contentParts"]): string {
  if (taken.length === 0) return "messages are text: take the part out";
  return `messages of the user are text, ${taken.join(" and ")}: take the part out`;
}

const details = ["auto", "low", "high"] as const;

function imageOf({ image_url: image = null }: JsonObject, partField: string): ContentPart {
  const field = `${partField}.image_url`;
  if (image === null) throw missing(field);
  if (!isJsonObject(image)) throw invalid(field, "an object with url", image);
  const { url = null, detail: given = null } = image;
  if (typeof url !== "string" || !/^(https?:\/\/|data:image\/)/i.test(url)) {
    throw invalid(`${field}.url`, "an address, or the image as data:image/png;base64,…", url);
  }
  const detail = details.find((known) => known === given);
  if (given !== null && detail === undefined) {
    throw invalid(`${field}.detail`, `one of ${details.join(", ")}`, given);
  }
  return { type: "image", url, ...(detail && { detail }) };
}

function audioOf({ input_audio: audio = null }: JsonObject, partField: string): ContentPart {
  const field = `${partField}.input_audio`;
  if (audio === null) throw missing(field);
  const { data = null, format = null } = isJsonObject(audio) ? audio : {};
  if (typeof data !== "string" || data === "") {
    throw invalid(`${field}.data`, "the audio in base64", data);
  }
  if (format !== "wav" && format !== "mp3") {
    throw invalid(`${field}.format`, "wav or mp3", format);
  }
  return { type: "audio", data, format };
}
