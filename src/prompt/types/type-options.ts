import { z } from "zod";

/** Options beside `type` of an Axolotl dataset, under Axolotl's names. Each type accepts some. */
export const typeOptions = z.strictObject({
  field: z.string().optional().describe("completion: field of the text; default text"),
  field_messages: z
    .string()
    .optional()
    .describe("Field of the list of messages; default messages or conversations, by the type"),
  field_system: z
    .string()
    .optional()
    .describe("chat_template: field of a system message that the list lacks; default system"),
  message_property_mappings: z
    .strictObject({
      role: z.string().optional().describe("Key of a message's role; default role"),
      content: z.string().optional().describe("Key of a message's content; default content"),
    })
    .optional()
    .describe("chat_template: keys of a message's role and content; default role and content"),
  message_field_role: z.string().optional().describe("Older name of the mapping of role"),
  message_field_content: z.string().optional().describe("Older name of the mapping of content"),
  roles: z
    .record(z.string(), z.array(z.string()))
    .optional()
    .describe("chat_template: for user, assistant and system, the names in the data"),
  drop_system_message: z.boolean().optional().describe("chat_template: leave it out"),
  field_human: z.string().optional().describe("sharegpt: name of the user's role; default human"),
  field_model: z.string().optional().describe("sharegpt: name of the model's role; default gpt"),
  conversation: z
    .enum(["vicuna_v1.1", "chatml"])
    .optional()
    .describe("sharegpt: send text of this form instead of messages"),
});

/** The user's own prompt type: `type` as a map. Formats hold {instruction}, {input}, {system}. */
export const userDefinedType = z.strictObject({
  field_instruction: z.string().default("instruction").describe("Field of {instruction}"),
  field_input: z.string().default("input").describe("Field of {input}; may be absent or empty"),
  field_output: z.string().optional().describe("Field of the expected answer, which is not sent"),
  field_system: z.string().default("system").describe("Field of {system}; may be absent"),
  system_prompt: z.string().default("").describe("{system} of rows without that field"),
  format: z.string().default("{instruction} {input} ").describe("Text of a row with an input"),
  no_input_format: z.string().default("{instruction} ").describe("Text of a row without one"),
  system_format: z
    .string()
    .default("{system}")
    .describe("Text before it, unless {system} is empty"),
});

export type TypeOptions = z.output<typeof typeOptions>;
export type UserDefinedType = z.output<typeof userDefinedType>;
