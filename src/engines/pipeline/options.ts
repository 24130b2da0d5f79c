import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";
import { replicaShape } from "../batching/batch-options.ts";
import { rowsTogether } from "./stage-facts.ts";

/** Most rows of a batch, and of those that share an outcome. */
const maxBatchRows = 65_536;

const stageKinds = [
  "map",
  "filter",
  "flatMap",
  "select",
  "rename",
  "mapBatches",
  "generate",
] as const;

export type StageKind = (typeof stageKinds)[number];

/** A function of the program that made the job; no file contains it. */
const closure = z.strictObject({
  at: z.int().min(0).describe("Its number among the functions of the program"),
  name: z.string().describe("Its name, or none"),
  sha256: z.string().describe("SHA-256 of its text: if it changes, it is another run"),
});

const anyObject = z.record(z.string(), z.any()).meta({ additionalProperties: true });

const codeShape = {
  module: z.string().min(1).optional().describe("The module with the stage's function or class"),
  moduleSha256: z.string().optional().describe("SHA-256 of its file, which Sluice fills in"),
  export: z.string().optional().describe("Name of the module's export; default: its default one"),
  closure: closure.optional().describe("Instead of a module, from the TypeScript API"),
};

const batchesShape = {
  batchSize: setting(
    "operation",
    "mapBatches: rows of each batch, exactly, until a task ends; default: by the size of rows",
    atLeastOne.max(maxBatchRows).optional(),
  ),
  rows: z
    .enum(["same", "any"])
    .optional()
    .describe("mapBatches: `any` = a batch may become any number of rows; default: one for each"),
  batchRows: atLeastOne
    .optional()
    .describe("For `rows: any`: the batch size, which decides results; Sluice fills it in"),
  batchFormat: z.enum(["rows", "columns"]).optional().describe("mapBatches: form of a batch"),
  constructorArgs: z
    .array(z.any())
    .optional()
    .describe("mapBatches: arguments of a class's constructor"),
  concurrency: setting(
    "operation",
    "Replicas, each in its own process; default 1, or as many as numCpus or numGpus allow",
    atLeastOne.max(256).optional(),
  ),
  numCpus: setting("operation", "Cores of a replica", z.number().gt(0).optional()),
  numGpus: setting("operation", "GPUs of a replica, such as 1 or 0.5", z.number().gt(0).optional()),
  memoryBytes: setting("operation", "Memory of a replica", atLeastOne.optional()),
  loadTimeoutMs: setting(
    "operation",
    "Longest time to load its code in a process; then that is ended, and the run stops",
    atLeastOne.max(limits.maxServerLoadTimeoutMs).default(limits.workerReadyTimeoutMs),
  ),
  timeoutMs: replicaShape.timeoutMs,
};

/** `model` of a job with engine `pipeline`, whose `generate` stages have models of `inner`. */
export function pipelineModelOf<Inner extends z.ZodType>(inner: Inner) {
  const innerModel = anyObject.transform((value, context): z.output<Inner> => {
    const { success, data, error } = inner.safeParse(value);
    if (success) return data;
    for (const { code: _, path, message } of error.issues) {
      context.addIssue({ code: "custom", path: [...path], message });
    }
    return z.NEVER;
  });
  const stage = z
    .strictObject({
      kind: z.enum(stageKinds).describe("What the stage does with each row, or batch of rows"),
      name: setting("operation", "Name of the stage, for people", z.string().optional()),
      ...codeShape,
      column: z.string().optional().describe("map: column that gets the result, beside the others"),
      columns: z
        .union([z.array(z.string()).min(1), z.record(z.string(), z.string())])
        .optional()
        .describe("select: columns to keep; rename: new names by old ones"),
      ...batchesShape,
      model: innerModel.optional().describe("generate: the model, as in any job"),
      prompt: z.any().optional().describe("generate: one prompt, as in any job"),
      prompts: anyObject.optional().describe("generate: several prompts by name"),
      schema: anyObject.optional().describe("generate: JSON Schema of the answer"),
      generation: anyObject.optional().describe("generate: how answers are sampled"),
      field: z.string().min(1).optional().describe("generate: column that gets the answer"),
    })
    .superRefine(checkStage);
  return z.strictObject({
    engine: z.literal("pipeline").describe("The engine that answers requests"),
    name: z.string().default("pipeline").describe("Name of the model, for reports"),
    stages: z
      .array(stage)
      .refine((stages) => rowsTogether({ stages }) <= maxBatchRows, {
        error: `batch sizes of stages with \`rows: any\` fit only more than ${maxBatchRows} rows`,
      })
      .describe("The stages of a row, in order"),
    typedInput: z
      .boolean()
      .optional()
      .describe("Rows of the input contain dates and typed arrays of a dataset"),
    typedOutput: z
      .boolean()
      .optional()
      .describe("Results contain dates and typed arrays, for a later dataset"),
    resources: setting(
      "operation",
      "Resources of each worker's replicas together; default: the worker's machine",
      z
        .strictObject({
          cpus: z.number().gt(0).optional().describe("Cores"),
          gpus: z.number().gt(0).optional().describe("GPUs"),
          memoryBytes: z.number().gt(0).optional().describe("Memory; default: the free memory"),
        })
        .prefault({}),
    ),
  });
}

interface UncheckedStage {
  kind: StageKind;
  module?: string | undefined;
  closure?: unknown;
  columns?: unknown;
  model?: unknown;
  rows?: unknown;
}

/** The keys that each kind of stage needs. */
function checkStage(stage: UncheckedStage, context: z.core.$RefinementCtx): void {
  const refuse = (key: string, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  const { kind, module, closure, columns, model, rows } = stage;
  if (rows !== undefined && kind !== "mapBatches") refuse("rows", `${kind} has no batches`);
  if (kind === "generate") {
    if (model === undefined) refuse("model", "a stage of kind generate needs a model");
  } else if (kind === "select" || kind === "rename") {
    const isFit = Array.isArray(columns) === (kind === "select");
    if (columns === undefined || !isFit) {
      refuse(
        "columns",
        kind === "select" ? "select needs a list of names" : "rename needs {old: new}",
      );
    }
  } else if ((module === undefined) === (closure === undefined)) {
    refuse("module", `a stage of kind ${kind} needs a module`);
  }
}

type PipelineModel = z.output<ReturnType<typeof pipelineModelOf<z.ZodType<unknown>>>>;

/** One stage from an engine's view, without its model. */
export type StageOptions = PipelineModel["stages"][number];

export type PipelineModelOptions = PipelineModel;
