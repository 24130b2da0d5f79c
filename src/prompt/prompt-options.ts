import { z } from "zod";

const slotOptions = z.strictObject({
  copyFrom: z
    .string()
    .default("item")
    .describe("Jinja expression for the text whose words may be copied, such as `item`"),
  orElse: z.string().default("none").describe("What stands in the line when nothing is copied"),
  maxWords: z.int().min(1).max(64).default(8).describe("Most consecutive words a slot may copy"),
  pattern: z
    .string()
    .optional()
    .describe("Regular expression (flags iu) that the whole copied text must match"),
});

const answerOptions = z.strictObject({
  line: z.string().describe("The answer's form, such as `temperature={temperature}`"),
  slots: z.record(z.string(), slotOptions).describe("One entry for each {slot} of the line"),
  omitEmptySlots: z
    .boolean()
    .default(false)
    .describe("Drop the `key=` part of a slot that copied nothing"),
  omitEmptyElements: z
    .boolean()
    .default(false)
    .describe("Drop the elements of a forEach in which no slot copied anything"),
  join: z
    .string()
    .optional()
    .describe(
      "Make one text of a forEach's answers: a line each, {n} is its number, {text} its text",
    ),
});

const messageOptions = z.strictObject({
  role: z.enum(["system", "user", "assistant"]),
  content: z.string().describe("Jinja template"),
});

const promptFields = {
  system: z.string().optional().describe("Jinja template of a system message before the prompt"),
  forEach: z
    .string()
    .optional()
    .describe("Jinja expression for a list; asks once for each `item`, answers come as a list"),
  answer: answerOptions.optional().describe("Answer by a line with slots that only copy"),
  api: z
    .enum(["chat", "completion"])
    .default("chat")
    .describe("`completion` sends the rendered prompt as it is, without a chat template"),
  onTooLong: z
    .enum(["fail", "truncate-left", "truncate-right"])
    .default("fail")
    .describe("What to do with a prompt that does not fit the model's context"),
};

const promptObject = z
  .strictObject({
    prompt: z.string().optional().describe("Jinja template over the row's fields"),
    messages: z
      .array(messageOptions)
      .min(1)
      .optional()
      .describe("A conversation instead of `prompt`"),
    ...promptFields,
  })
  .refine((value) => (value.prompt === undefined) !== (value.messages === undefined), {
    message: "give exactly one of prompt and messages",
  });

/** One prompt as the job file has it: a Jinja template, or an object with options. */
export const promptOptions = z.union([
  z.string().transform((prompt) => promptObject.parse({ prompt })),
  promptObject,
]);

/** One prompt, validated, with defaults filled in. */
export type PromptOptions = z.output<typeof promptOptions>;
export type AnswerOptions = z.output<typeof answerOptions>;
export type SlotOptions = z.output<typeof slotOptions>;
