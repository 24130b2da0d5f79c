import type { ChatMessage } from "../../foundation/inference.ts";
import type { PromptType } from "./prompt-type.ts";
import type { RowFields } from "./row-fields.ts";

/** Segments of raw text; those with `label: true` are the model's. */
export const inputOutputType: PromptType = {
  names: ["input_output", "input_output.load"],
  options: [],
  read: () => ({
    kind: "conversation",
    messages: (fields) => fields.objects("segments").map(segment),
    format: (messages) => messages.map(({ content }) => content).join(""),
  }),
};

function segment(fields: RowFields): ChatMessage {
  const label = fields.value("label");
  if (typeof label !== "boolean") throw fields.wrong("label", "it reads true or false");
  return { role: label ? "assistant" : "user", content: fields.text("text") };
}
