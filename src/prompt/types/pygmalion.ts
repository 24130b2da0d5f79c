import type { ChatMessage } from "../../foundation/inference.ts";
import { type MessageKeys, readMessages } from "./messages.ts";
import type { PromptType } from "./prompt-type.ts";

const keys: MessageKeys = {
  list: "conversations",
  role: ["role"],
  content: ["value"],
  roles: { human: "user", bot: "assistant", system: "system" },
};

/** Role play in Pygmalion's form: a persona, then turns of user and model. */
export const pygmalionType: PromptType = {
  names: ["pygmalion", "pygmalion.load"],
  options: [],
  read: () => ({
    kind: "conversation",
    messages: (fields) => readMessages(fields, keys),
    format: pygmalionText,
  }),
};

function pygmalionText(messages: readonly ChatMessage[], eosToken: string): string {
  const written = messages.map(({ role, content }) => {
    if (role === "user") return `<|user|> ${content.trim()}`;
    if (role === "assistant") return `<|model|> ${content.trim()}${eosToken}`;
    return `<|system|>Persona: ${content.replace(/\n<START>$/, "").trim()}`;
  });
  return `${written.join("")}<|model|>`;
}
