import type { z } from "zod";
import type { Json, JsonObject } from "../foundation/json.ts";
import { isZodSchema } from "../prompt/structure/zod-schema.ts";
import type { JobInput } from "../run/job/schema.ts";
import { edgeSchemaOf } from "./edge-schema.ts";
import type { Step } from "./step.ts";

/** A model by its name in the catalog, its path or address, or as the job file has it. */
export type StageModel = string | Exclude<JobInput["model"], { engine: "pipeline" }>;

/** What a model is asked about each row. */
export interface GenerateOptions<
  Field extends string,
  Schema extends z.ZodType,
  Prompt extends JobInput["prompt"] = JobInput["prompt"],
  Prompts extends JobInput["prompts"] = JobInput["prompts"],
> {
  /** A name such as `smollm2-135m-instruct` (engine llama), or an object with its engine. */
  model: StageModel;
  /**
   * Jinja template over the row's columns, or an object as the job file has it. Left out for an
   * engine that reads rows, such as a predictor.
   */
  prompt?: Prompt;
  /** Several prompts by name; the column gets an object with their answers. */
  prompts?: Prompts;
  /** Form of the answer, which is then JSON of this type. */
  output?: Schema;
  /** How answers are sampled: `{maxNewTokens: 64, temperature: 0}`. */
  generation?: JobInput["generation"];
  /** Column that gets the answer; default `answer`. */
  field?: Field;
  /** What `stats()` and events call it. */
  name?: string;
}

/** A stage for `pipe` that adds a column to each row. */
export interface Pipe<Name extends string, Value, Needed extends string = never> {
  readonly step: Step;
  /** The column that it adds, as types alone. */
  readonly adds?: readonly [name: Name, value: Value];
  /** The columns that it reads, as types alone. */
  readonly needs?: Needed;
}

/** What one prompt is answered with; `Schema` is that of texts where none is given. */
type PromptAnswer<Schema extends z.ZodType, Prompt> = [Prompt] extends [{ forEach: unknown }]
  ? Json
  : [z.ZodType<string>, Prompt] extends [Schema, { schema: unknown }]
    ? Json
    : z.output<Schema>;

/** What the column gets: an answer, or an object of answers by the names of `prompts`. */
type AnswerOf<Schema extends z.ZodType, Prompt, Prompts> = [Prompts] extends [object]
  ? { [Name in keyof Prompts]: PromptAnswer<Schema, Prompts[Name]> }
  : PromptAnswer<Schema, Prompt>;

/** Columns that prompts read, where their texts are known. */
type ColumnsOf<Prompt, Prompts> =
  string extends NamesIn<Prompt, Prompts> ? never : NamesIn<Prompt, Prompts>;

type NamesIn<Prompt, Prompts> =
  | PromptColumns<Prompt>
  | ([Prompts] extends [object] ? PromptColumns<Prompts[keyof Prompts]> : never);

/**
 * Columns that the slots of a prompt read, as types: of `{{ text }}`, `{{ text.title }}` and
 * `{{ text | upper }}` it is `text`. What may do without a column (`default`, `if`), what computes,
 * and templates with statements or comments are left to the check at run time.
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

/** What a name does not hold. */
type Other = " " | "\n" | "(" | ")" | "'" | '"' | "+" | "-" | "*" | "/" | "~" | "%" | "=" | "{";

/** Names that no column can have. */
type Word = "" | `${number}` | "true" | "false" | "none" | "True" | "False" | "None";

type NameIn<Text> = Text extends Word | `${string}${Other}${string}` ? never : Text;

type Trimmed<Text> = Text extends
  | `${" " | "\n" | "-"}${infer Rest}`
  | `${infer Rest}${" " | "\n" | "-"}`
  ? Trimmed<Rest>
  : Text;

/** Options of an engine that reads rows themselves, and answers as it likes. */
type RowOptions<Field extends string> = Pick<
  GenerateOptions<Field, never>,
  "generation" | "field" | "name"
> & {
  model: Extract<StageModel, { engine: "predictor" | "transformers" | "command" }>;
  prompt?: undefined;
  prompts?: undefined;
  output?: undefined;
};

/**
 * A stage that asks a model about each row, for `dataset.pipe`.
 *
 * @throws SluiceError `JOB_INVALID` where the schema cannot be said as JSON Schema.
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

/** Without what is undefined; functions and the like have no place in a job. */
function plain(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
