import type { z } from "zod";
import type { JsonObject } from "../foundation/json.ts";
import { isZodSchema, jsonSchemaOf } from "../prompt/structure/zod-schema.ts";
import type { JobInput } from "../run/job/schema.ts";
import type { Step } from "./step.ts";

/** A model by its name in the catalog, its path or address, or as the job file has it. */
export type StageModel = string | Exclude<JobInput["model"], { engine: "pipeline" }>;

/** What a model is asked about each row. */
export interface GenerateOptions<Field extends string, Schema extends z.ZodType> {
  /** A name such as `smollm2-135m-instruct` (engine llama), or an object with its engine. */
  model: StageModel;
  /**
   * Jinja template over the row's columns, or an object as the job file has it. Left out for an
   * engine that reads rows, such as a predictor.
   */
  prompt?: JobInput["prompt"];
  /** Several prompts by name; the column gets an object with their answers. */
  prompts?: JobInput["prompts"];
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
export interface Pipe<Name extends string, Value> {
  readonly step: Step;
  /** The column that it adds, as types alone. */
  readonly adds?: readonly [name: Name, value: Value];
}

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
export function generate<
  const Field extends string = "answer",
  Schema extends z.ZodType = z.ZodType<string>,
>(options: GenerateOptions<Field, Schema>): Pipe<Field, z.output<Schema>> {
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
  return isZodSchema(schema) ? jsonSchemaOf(schema, "output") : (schema as JsonObject);
}

/** Without what is undefined; functions and the like have no place in a job. */
function plain(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
