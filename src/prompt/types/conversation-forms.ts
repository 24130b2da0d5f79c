import type { ChatMessage } from "../../foundation/inference.ts";

const vicunaSystem =
  "A chat between a curious user and an artificial intelligence assistant. The assistant gives " +
  "helpful, detailed, and polite answers to the user's questions.";
const vicunaRoles = { user: "USER", assistant: "ASSISTANT", system: "SYSTEM" };

/** A conversation as FastChat's `vicuna_v1.1` writes it, up to where the answer begins. */
export function vicunaText(messages: readonly ChatMessage[]): string {
  const { system, turns } = parted(messages);
  const written = turns.map(({ role, content }, at) => {
    const name = `${vicunaRoles[role]}:`;
    // The end mark goes by place, not by role, as FastChat has it.
    return content === "" ? name : `${name} ${content}${at % 2 === 0 ? " " : "</s>"}`;
  });
  return `${system ?? vicunaSystem} ${written.join("")}ASSISTANT:`;
}

/** A conversation as FastChat's `chatml` of Axolotl writes it, up to where the answer begins. */
export function chatmlText(messages: readonly ChatMessage[]): string {
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

/** A conversation as Axolotl's `llama2_chat` writes it, up to where the answer begins. */
export function llama2Text(messages: readonly ChatMessage[]): string {
  const { system, turns } = parted(messages);
  const first = turns.findIndex(({ role }) => role === "user");
  const written = turns.slice(Math.max(0, first)).map(({ role, content }, at) => {
    const text = content.trim();
    // As in Axolotl, no space stands behind the first message.
    if (at === 0) return `[INST] <<SYS>>\n${system ?? llama2System}\n<</SYS>>\n\n${text}`;
    return role === "user" ? `[INST] ${text} ` : `[/INST] ${text} </s><s>`;
  });
  return `${written.join("")}[/INST]`;
}

function parted(messages: readonly ChatMessage[]) {
  const [first, ...rest] = messages;
  if (first?.role !== "system") return { system: undefined, turns: messages };
  return { system: first.content, turns: rest };
}
