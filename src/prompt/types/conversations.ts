import type { TextMessage } from "../../foundation/inference.ts";
import { jobInvalid } from "../answer-form.ts";
import { type MessageKeys, readMessages } from "./messages.ts";
import type { ConversationReading, PromptType } from "./prompt-type.ts";
import type { RowFields } from "./row-fields.ts";
import type { TypeOptions } from "./type-options.ts";

const vicunaSystem =
  "A chat between a curious user and an artificial intelligence assistant. The assistant gives " +
  "helpful, detailed, and polite answers to the user's questions.";
const vicunaRoles = { user: "USER", assistant: "ASSISTANT", system: "SYSTEM" };

/** A conversation in the form of FastChat's `vicuna_v1.1`, up to where the answer begins. */
function vicunaText(messages: readonly TextMessage[]): string {
  const { system, turns } = parted(messages);
  const written = turns.map(({ role, content }, at) => {
    const name = `${vicunaRoles[role]}:`;
    // As in FastChat, the end mark depends on the position, not on the role.
    return content === "" ? name : `${name} ${content}${at % 2 === 0 ? " " : "</s>"}`;
  });
  return `${system ?? vicunaSystem} ${written.join("")}ASSISTANT:`;
}

/** A conversation in the form of FastChat's `chatml` in Axolotl, up to where the answer begins. */
function chatmlText(messages: readonly TextMessage[]): string {
  const { system, turns } = parted(messages);
  const all = [{ role: "system", content: system ?? "You are a helpful assistant." }, ...turns];
  const written = all.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`);
  return `${written.join("")}<|im_start|>assistant\n`;
}

const llama2System = [
  "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible, " +
    "while being safe. Your answers should not include any harmful, unethical, racist, sexist, " +
    "toxic, dangerous, or illegal content. Please ensure that your responses are socially " +
    "unbiased and positive in nature.",
  "",
  "If a question does not make any sense, or is not factually coherent, explain why instead of " +
    "answering something not correct. If you don't know the answer to a question, please don't " +
    "share false information.",
].join("\n");

/** A conversation in the form of Axolotl's `llama2_chat`, up to where the answer begins. */
function llama2Text(messages: readonly TextMessage[]): string {
  const { system, turns } = parted(messages);
  const first = turns.findIndex(({ role }) => role === "user");
  const written = turns.slice(Math.max(0, first)).map(({ role, content }, at) => {
    const text = content.trim();
    // As in Axolotl, no space follows the first message.
    if (at === 0) return `[INST] <<SYS>>\n${system ?? llama2System}\n<</SYS>>\n\n${text}`;
    return role === "user" ? `[INST] ${text} ` : `[/INST] ${text} </s><s>`;
  });
  return `${written.join("")}[/INST]`;
}

function parted(messages: readonly TextMessage[]) {
  const [first, ...rest] = messages;
  if (first?.role !== "system") return { system: undefined, turns: messages };
  return { system: first.content, turns: rest };
}

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

/** Conversations of messages with `from` and `value`, or with other keys for these. */
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

/** A joke and why it is funny, as two turns of a conversation. */
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

/** Conversations in the form of Llama 2's own code. */
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

/** Axolotl's newer type for messages, with any of the usual keys. */
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

/** Messages in OpenAI's form, or in a form that the options describe. */
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

function withSystem(fields: RowFields, field: string, messages: TextMessage[]): TextMessage[] {
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

/** `{human: user, person: user}` from `{user: [human, person]}`. */
function inverted(roles: Readonly<Record<string, readonly string[]>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(roles).flatMap(([role, names]) => names.map((name) => [name, role])),
  );
}

/** Segments of raw text; the model writes those with `label: true`. */
export const inputOutputType: PromptType = {
  names: ["input_output", "input_output.load"],
  options: [],
  read: () => ({
    kind: "conversation",
    messages: (fields) => fields.objects("segments").map(segment),
    format: (messages) => messages.map(({ content }) => content).join(""),
  }),
};

function segment(fields: RowFields): TextMessage {
  const label = fields.value("label");
  if (typeof label !== "boolean") throw fields.wrong("label", "it reads true or false");
  return { role: label ? "assistant" : "user", content: fields.text("text") };
}

const pygmalionKeys: MessageKeys = {
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
    messages: (fields) => readMessages(fields, pygmalionKeys),
    format: pygmalionText,
  }),
};

function pygmalionText(messages: readonly TextMessage[], eosToken: string): string {
  const written = messages.map(({ role, content }) => {
    if (role === "user") return `<|user|> ${content.trim()}`;
    if (role === "assistant") return `<|model|> ${content.trim()}${eosToken}`;
    return `<|system|>Persona: ${content.replace(/\n<START>$/, "").trim()}`;
  });
  return `${written.join("")}<|model|>`;
}
