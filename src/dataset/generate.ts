import type { z } from "zod";
import { assertOptions } from "../foundation/call-options.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { isZodSchema } from "../prompt/structure/zod-schema.ts";
import type { JobInput } from "../run/job/schema.ts";
import { edgeSchemaOf } from "./edge-schema.ts";
import type { Step } from "./step.ts";
import { optionsPage } from "./step-code.ts";

/** A model: its name in the catalog, its path or address, or an object as in the job file. */
export type StageModel = string | Exclude<JobInput["model"], { engine: "pipeline" }>;

/** Options of `generate`. */
export interface GenerateOptions<
  Field extends string,
  Schema extends z.ZodType,
  Prompt extends JobInput["prompt"] = JobInput["prompt"],
  Prompts extends JobInput["prompts"] = JobInput["prompts"],
> {
  /** A name such as `smollm2-135m-instruct` (engine llama), or an object with its engine. */
  model: StageModel;
  /**
   * Jinja template over the row's columns, or an object as in the job file. Omit it for an engine
   * that reads rows, such as a predictor.
   */
  prompt?: Prompt;
  /** Several prompts by name; the column gets an object of their answers. */
  prompts?: Prompts;
  /** Form of the answer: with a schema, the answer is JSON of its type. */
  output?: Schema;
  /** How answers are sampled: `{maxNewTokens: 64, temperature: 0}`. */
  generation?: JobInput["generation"];
  /** Column for the answer; default `answer`. */
  field?: Field;
  /** Name of the stage in `stats()` and events. */
  name?: string;
}

/** A stage for `pipe` that adds a column to each row. */
export interface Pipe<Name extends string, Value, Needed extends string = never> {
  readonly step: Step;
  /** The column that it adds; exists as a type only. */
  readonly adds?: readonly [name: Name, value: Value];
  /** The columns that it reads; exists as a type only. */
  readonly needs?: Needed;
}

/** The answer to one prompt. Without a schema it is text. */
type PromptAnswer<Schema extends z.ZodType, Prompt> = [Prompt] extends [{ forEach: unknown }]
  ? Json
  : [z.ZodType<string>, Prompt] extends [Schema, { schema: unknown }]
    ? Json
    : z.output<Schema>;

/** The value of the column: an answer, or an object of answers by the names of `prompts`. */
type AnswerOf<Schema extends z.ZodType, Prompt, Prompts> = [Prompts] extends [object]
  ? { [Name in keyof Prompts]: PromptAnswer<Schema, Prompts[Name]> }
  : PromptAnswer<Schema, Prompt>;

/** Columns that prompts read, if their texts are known as types. */
type ColumnsOf<Prompt, Prompts> =
  string extends NamesIn<Prompt, Prompts> ? never : NamesIn<Prompt, Prompts>;

type NamesIn<Prompt, Prompts> =
  | PromptColumns<Prompt>
  | ([Prompts] extends [object] ? PromptColumns<Prompts[keyof Prompts]> : never);

/**
 * Columns in the `{{ }}` of a prompt, as types: `text` for `{{ text }}`, `{{ text.title }}` and `{{
 * text | upper }}`. The check at run time covers the rest: expressions that can do without a column
 * (`default`, `if`), calculations, and templates with statements or comments.
 */
type PromptColumns<Template> = Template extends `${string}{%${string}` | `${string}{#${string}`
  ? never
  : SlotNames<Template>;

type SlotNames<Template, Found = never> = Template extends `${string}{{${infer Slot}}}${infer Rest}`
  ? SlotNames<Rest, Found | SlotName<Trimmed<Slot>>>
  : Found;

type SlotName<Slot> = Slot extends `${string}default${string}` | `${string}|d(${string}`
  ? never
  : Slot extends `${infer Path}|${string}`
    ? NameIn<FirstStep<Trimmed<Path>>>
    : NameIn<FirstStep<Slot>>;

type FirstStep<Path> = Path extends `${infer Name}.${string}`
  ? FirstStep<Name>
  : Path extends `${infer Name}[${string}`
    ? FirstStep<Name>
    : Path;

/** Characters that are not part of a name. */
type Other = " " | "\n" | "(" | ")" | "'" | '"' | "+" | "-" | "*" | "/" | "~" | "%" | "=" | "{";

/** Words that cannot be columns. */
type Word = "" | `${number}` | "true" | "false" | "none" | "True" | "False" | "None";

type NameIn<Text> = Text extends Word | `${string}${Other}${string}` ? never : Text;

type Trimmed<Text> = Text extends
  | `${" " | "\n" | "-"}${infer Rest}`
  | `${infer Rest}${" " | "\n" | "-"}`
  ? Trimmed<Rest>
  : Text;

/** Options of an engine that reads whole rows and returns any value. */
type RowOptions<Field extends string> = Pick<
  GenerateOptions<Field, never>,
  "generation" | "field" | "name"
> & {
  model: Extract<StageModel, { engine: "predictor" | "transformers" | "command" }>;
  prompt?: undefined;
  prompts?: undefined;
  output?: undefined;
};

const optionNames = {
  ...{ model: true, prompt: true, prompts: true, output: true, generation: true },
  ...{ field: true, name: true },
} as const;

/**
 * A stage that sends a request to a model for each row, for `dataset.pipe`.
 *
 * @throws SluiceError `JOB_INVALID` if JSON Schema cannot express the schema.
 * @example
 * const sentiment = generate({
 *   model: "smollm2-135m-instruct",
 *   prompt: "Sentiment of: {{ text }}",
 *   output: z.object({ label: z.enum(["good", "bad"]) }),
 *   field: "sentiment",
 * });
 * const labels = dataset.jsonl("reviews.jsonl").pipe(sentiment); // each row with `sentiment.label`
 */
export function generate<const Field extends string = "answer">(
  options: RowOptions<Field>,
): Pipe<Field, Json>;
export function generate<
  const Field extends string = "answer",
  Schema extends z.ZodType = z.ZodType<string>,
  const Prompt extends JobInput["prompt"] = JobInput["prompt"],
  const Prompts extends JobInput["prompts"] = JobInput["prompts"],
>(
  options: GenerateOptions<Field, Schema, Prompt, Prompts>,
): Pipe<Field, AnswerOf<Schema, Prompt, Prompts>, ColumnsOf<Prompt, Prompts> & string>;
export function generate<Field extends string>(
  options: GenerateOptions<Field, z.ZodType>,
): Pipe<Field, unknown, string> {
  assertOptions("generate", options, optionNames, optionsPage);
  const { model, prompt, prompts, output, generation, field = "answer", name } = options;
  const stage = {
    kind: "generate",
    model: typeof model === "string" ? { engine: "llama", name: model } : model,
    ...{ prompt, prompts, generation, field, name },
    ...(output !== undefined && { schema: schemaOf(output) }),
  };
  return { step: { kind: "stage", stage: plain(stage), isOneToOne: true } };
}

function schemaOf(schema: z.ZodType): JsonObject {
  return isZodSchema(schema) ? edgeSchemaOf(schema, "output") : (schema as JsonObject);
}

/** Drops undefined values; a job cannot hold functions and the like. */
function plain(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
