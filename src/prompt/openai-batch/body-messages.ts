import type { TextMessage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { invalid, missing, shown, unsupported, withoutToolMessages } from "./request-faults.ts";

/** OpenAI's newer name for the system role is `developer`. */
const roles: Readonly<Record<string, TextMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
};

/** Fields of a message about tool calls. */
const callFields: ReadonlySet<string> = new Set(["function_call", "tool_calls", "tool_call_id"]);

/**
 * The messages of a chat body. Content may be a text, or parts of type `text`, which are joined by
 * line breaks.
 *
 * @throws SluiceError `PARAMETER_MISSING`, `PARAMETER_INVALID`, `PARAMETER_UNSUPPORTED` (images,
 *   tools), which names the field, such as `body.messages[1].content`.
 */
export function messagesOfBody(body: JsonObject): TextMessage[] {
  const { messages } = body;
  if (messages === undefined || messages === null) throw missing("body.messages");
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalid("body.messages", "a list of messages", messages);
  }
  return messages.map((message, at) => messageOf(message, `body.messages[${at}]`));
}

function messageOf(message: Json, field: string): TextMessage {
  if (!isJsonObject(message)) throw invalid(field, "an object", message);
  const { role, content, ...rest } = message;
  if (role === undefined || role === null) throw missing(`${field}.role`);
  if (role === "tool" || role === "function") {
    throw unsupported(`${field}.role`, `${role}; ${withoutToolMessages}`);
  }
  if (typeof role !== "string" || !Object.hasOwn(roles, role)) {
    throw invalid(`${field}.role`, `one of ${Object.keys(roles).join(", ")}`, role);
  }
  for (const [name, value] of Object.entries(rest)) {
    const isEmpty = value === null || (Array.isArray(value) && value.length === 0);
    if (!isEmpty)
      throw unsupported(`${field}.${name}`, callFields.has(name) ? withoutToolMessages : "");
  }
  if (content === undefined || content === null) throw missing(`${field}.content`);
  return { role: roles[role]!, content: textOf(content, `${field}.content`) };
}

function textOf(content: Json, field: string): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw invalid(field, "a text or a list of parts", content);
  const texts = content.map((part, at) => {
    if (typeof part === "string") return part;
    if (!isJsonObject(part)) throw invalid(`${field}[${at}]`, "an object", part);
    if (part.type !== "text") {
      const detail = `${shown(part.type ?? null)}; messages are text: take the part out`;
      throw unsupported(`${field}[${at}].type`, detail);
    }
    if (typeof part.text !== "string") throw missing(`${field}[${at}].text`);
    return part.text;
  });
  return texts.join("\n");
}
