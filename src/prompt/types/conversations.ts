import type { ChatMessage } from "../../foundation/inference.ts";
import { jobInvalid } from "../answer-form.ts";
import { chatmlText, llama2Text, vicunaText } from "./conversation-forms.ts";
import { type MessageKeys, readMessages } from "./messages.ts";
import type { ConversationReading, PromptType } from "./prompt-type.ts";
import type { RowFields } from "./row-fields.ts";
import type { TypeOptions } from "./type-options.ts";

const forms = { "vicuna_v1.1": vicunaText, chatml: chatmlText } as const;

const usualRoles = { human: "user", user: "user", gpt: "assistant", assistant: "assistant" };

function shareGpt(
  names: PromptType["names"],
  keys: MessageKeys,
  options: PromptType["options"] = ["conversation"],
): PromptType {
  return {
    names,
    options,
    read: ({ conversation, field_messages, field_human, field_model }) => {
      const roles = { ...keys.roles };
      if (field_human !== undefined) roles[field_human] = "user";
      if (field_model !== undefined) roles[field_model] = "assistant";
      const own = { ...keys, list: field_messages ?? keys.list, roles };
      const reading: ConversationReading = {
        kind: "conversation",
        messages: (fields) => readMessages(fields, own),
      };
      return conversation === undefined ? reading : { ...reading, format: forms[conversation] };
    },
  };
}

const anyKeys = {
  role: ["from", "role"],
  content: ["value", "text", "content"],
} as const satisfies Partial<MessageKeys>;
const prompter = { prompter: "user", assistant: "assistant" };

/** Conversations whose messages have `from` and `value`, or such keys. */
export const shareGptTypes: readonly PromptType[] = [
  shareGpt(
    ["sharegpt", "sharegpt.load", "sharegpt:chat", "sharegpt_simple", "sharegpt_simple.load"],
    { list: "conversations", ...anyKeys, roles: usualRoles },
    ["conversation", "field_messages", "field_human", "field_model"],
  ),
  shareGpt(["sharegpt.load_role", "sharegpt_simple.load_role"], {
    ...{ list: "conversations", role: ["role"], content: ["value"], roles: usualRoles },
  }),
  shareGpt(["sharegpt.load_guanaco", "sharegpt_simple.load_guanaco"], {
    ...{ list: "conversations", role: ["role"], content: ["text"], roles: prompter },
  }),
  shareGpt(["sharegpt.load_ultrachat"], {
    ...{ list: "messages", role: ["role"], content: ["content"], roles: usualRoles },
  }),
];

/** A joke, and why it is funny: two turns of a conversation. */
export const jokesType: PromptType = {
  names: ["sharegpt_jokes", "sharegpt_jokes.load"],
  options: ["conversation"],
  read: ({ conversation }) => ({
    kind: "conversation",
    messages: (fields) => {
      const title = fields.optionalText("title");
      const joke = `${title === "" ? "" : `${title} `}${fields.text("text")}`;
      return [
        { role: "user", content: "Tell me a joke." },
        { role: "assistant", content: joke },
        { role: "user", content: "Why is that joke funny?" },
      ];
    },
    ...(conversation && { format: forms[conversation] }),
  }),
};

/** Conversations in the words of Llama 2's own code. */
export const llama2ChatType: PromptType = {
  names: ["llama2_chat", "llama2_chat.load"],
  options: [],
  read: () => ({
    kind: "conversation",
    messages: (fields) =>
      readMessages(fields, {
        ...{ list: "conversations", role: ["from"], content: ["value"], roles: usualRoles },
      }),
    format: llama2Text,
  }),
};

/** Axolotl's newer reading of messages, under any of their usual keys. */
export const messagesType: PromptType = {
  names: ["messages"],
  options: ["field_messages", "message_property_mappings"],
  read: ({ field_messages: list = "conversations", message_property_mappings: own = {} }) => ({
    kind: "conversation",
    messages: (fields) =>
      readMessages(fields, {
        list,
        role: own.role === undefined ? ["role", "from"] : [own.role],
        content: own.content === undefined ? anyKeys.content : [own.content],
        roles: usualRoles,
      }),
  }),
};

/** Messages in OpenAI's form, or in any that its options describe. */
export const chatTemplateType: PromptType = {
  names: ["chat_template", "chat_template.load"],
  options: [
    "field_messages",
    "field_system",
    "message_property_mappings",
    "message_field_role",
    "message_field_content",
    "roles",
    "drop_system_message",
  ],
  read: (options, key) => {
    const keys = chatTemplateKeys(options, key);
    const { field_system: system = "system", drop_system_message: drops = false } = options;
    const messages = (fields: RowFields) => {
      const all = withSystem(fields, system, readMessages(fields, keys));
      return drops && all[0]?.role === "system" ? all.slice(1) : all;
    };
    return { kind: "conversation", messages };
  },
};

function withSystem(fields: RowFields, field: string, messages: ChatMessage[]): ChatMessage[] {
  if (messages[0]?.role === "system" || !fields.has(field)) return messages;
  return [{ role: "system", content: fields.text(field) }, ...messages];
}

function chatTemplateKeys(options: TypeOptions, key: string): MessageKeys {
  const { message_property_mappings: mappings = {}, roles } = options;
  const keyOf = (name: "role" | "content", older: string | undefined) => {
    const newer = mappings[name];
    if (older !== undefined && newer !== undefined && older !== newer) {
      throw jobInvalid(`${key}.message_field_${name}`, "message_property_mappings says another");
    }
    return newer ?? older ?? name;
  };
  return {
    list: options.field_messages ?? "messages",
    role: [keyOf("role", options.message_field_role)],
    content: [keyOf("content", options.message_field_content)],
    roles: roles === undefined ? usualRoles : inverted(roles),
  };
}

/** `{user: [human, person]}` as `{human: user, person: user}`. */
function inverted(roles: Readonly<Record<string, readonly string[]>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(roles).flatMap(([role, names]) => names.map((name) => [name, role])),
  );
}
