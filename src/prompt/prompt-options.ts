import { z } from "zod";
import type { JsonObject } from "../foundation/json.ts";
import { maxSlotWords, slotWords } from "./structure/shape.ts";
import { typeOptions, userDefinedType } from "./types/type-options.ts";

const slotOptions = z.strictObject({
  copyFrom: z
    .string()
    .default("item")
    .describe("Jinja expression for the text whose words may be copied, such as `item`"),
  orElse: z.string().default("none").describe("Text of the slot when nothing is copied"),
  maxWords: z
    .int()
    .min(1)
    .max(maxSlotWords)
    .default(slotWords)
    .describe("Most consecutive words that a slot may copy"),
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
      "Joins a forEach's answers into one text, a line each. {text} is the answer, {n} the number of the " +
        "element; after `list | sentences` the number of the sentence's text",
    ),
});

/**
 * A JSON Schema, as in a job file. A program may give a zod schema, which is converted before the
 * job is checked. Its content is checked when prompts are compiled.
 */
export const answerSchema = z
  .record(z.string(), z.unknown())
  .meta({ additionalProperties: true }) as unknown as z.ZodType<JsonObject, JsonObject | z.ZodType>;

const messageOptions = z.strictObject({
  role: z.enum(["system", "user", "assistant"]).describe("The speaker"),
  content: z.string().describe("Jinja template"),
});

/** Options of every prompt, however it gets its words. */
export const promptFields = {
  system: z.string().optional().describe("Jinja template of a system message before the prompt"),
  forEach: z
    .string()
    .optional()
    .describe("Jinja expression for a list; one request for each `item`, answers come as a list"),
  answer: answerOptions.optional().describe("Answer by a line with slots that only copy"),
  schema: answerSchema.optional().describe("JSON Schema of the answer, which is then JSON"),
  api: z
    .enum(["chat", "completion", "embedding", "transcription"])
    .optional()
    .describe(
      "`completion` sends the rendered prompt unchanged, without a chat template; `embedding` requests " +
        "its vector; `transcription` the speech in `file` as text; default `chat`, with a `type` " +
        "the type's own form",
    ),
  file: z
    .string()
    .optional()
    .describe(
      "Jinja template of the path of a sound file, with `api: transcription`; from the folder " +
        "of the input",
    ),
  image: z
    .string()
    .optional()
    .describe("Jinja template of the path of an image for `prompt`; from the folder of the input"),
  onTooLong: z
    .enum(["fail", "truncate-left", "truncate-right"])
    .default("fail")
    .describe("What to do with a prompt that does not fit the model's context"),
  truncateFeatures: z
    .array(z.string())
    .min(1)
    .optional()
    .describe("Fields that are emptied before the prompt is rendered"),
  stripWhitespace: z
    .boolean()
    .optional()
    .describe("Strip white space from both ends of a completion's prompt"),
  eosToken: z
    .string()
    .optional()
    .describe(
      "Text of the end-of-sequence token, which is removed from the end of a completion's prompt",
    ),
};

/** Options of a prompt whose words come from a type. */
export const typeFields = {
  type: z
    .union([z.string(), userDefinedType])
    .optional()
    .describe("A prompt type of Axolotl instead of `prompt`: a name, or your own type"),
  typeOptions: typeOptions.optional().describe("Options of the type, by Axolotl's names"),
  turns: z
    .enum(["first", "last", "every"])
    .optional()
    .describe(
      "With a type of conversations: which turn is sent; default `last`. `every` sends them in " +
        "order, each after the model's own answers, and gives a list",
    ),
};

const promptObject = z
  .strictObject({
    prompt: z.string().optional().describe("Jinja template over the row's fields"),
    messages: z
      .array(messageOptions)
      .min(1)
      .optional()
      .describe("A conversation instead of `prompt`"),
    ...typeFields,
    ...promptFields,
    history: z
      .string()
      .optional()
      .describe(
        "Jinja expression for the earlier turns, which follow system messages: a list of " +
          "{user, bot}, {role, content} or [user, bot]",
      ),
  })
  .refine(
    ({ prompt, messages, type, file }) =>
      [prompt, messages, type, file].filter((value) => value !== undefined).length === 1,
    { message: "give exactly one of prompt, messages and type" },
  )
  .refine(({ api, file }) => (api === "transcription") === (file !== undefined), {
    path: ["file"],
    message: "file and api: transcription go together",
  })
  .refine(
    ({ api = "chat", prompt, image }) =>
      image === undefined || (api === "chat" && prompt !== undefined),
    { path: ["image"], message: "an image goes with prompt, in a chat" },
  )
  .refine(
    ({ api = "chat", type, history }) =>
      history === undefined || (api === "chat" && type === undefined),
    { path: ["history"], message: "a history goes with prompt or messages, in a chat" },
  )
  // What a type makes is known only after it was compiled.
  .transform((value) =>
    value.type === undefined ? { ...value, api: value.api ?? "chat" } : value,
  );

/** A prompt in the job file: a Jinja template, or an object with options. */
export const promptOptions = z.union([
  z
    .string()
    .transform((prompt): z.input<typeof promptObject> => ({ prompt }))
    .pipe(promptObject),
  promptObject,
]);

/** A validated prompt, with defaults filled in. */
export type PromptOptions = z.output<typeof promptOptions>;
export type AnswerOptions = z.output<typeof answerOptions>;
