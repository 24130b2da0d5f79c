import { z } from "zod";
import { modelOptions } from "../../engines/model-options.ts";
import { limits } from "../../foundation/limits.ts";
import { setting } from "../../foundation/setting.ts";
import { promptOptions } from "../../prompt/prompt-options.ts";

const count = z.int().min(1);

const inputSource = z.strictObject({
  path: z.string().describe("A file, a glob, or - for standard input"),
  format: z.enum(["jsonl", "json", "text"]).optional().describe("Default: by the file's ending"),
  id: z.string().optional().describe("Field that identifies a row"),
  maxLineBytes: count
    .default(limits.maxLineBytes)
    .describe("Longest line; a longer one fails alone"),
});

const generation = z.strictObject({
  maxNewTokens: count.default(256).describe("Most tokens of one answer"),
  temperature: z.number().min(0).max(10).default(0).describe("0 = the likeliest token each time"),
  topP: z.number().gt(0).max(1).default(1).describe("Share of probability sampled from"),
  topK: z.int().min(0).default(0).describe("Likeliest tokens sampled from; 0 = all"),
  minP: z.number().min(0).max(1).default(0).describe("Least probability relative to the likeliest"),
  repetitionPenalty: z.number().gt(0).default(1).describe("Above 1: repeat less"),
  presencePenalty: z.number().min(-2).max(2).default(0).describe("Above 0: new words"),
  frequencyPenalty: z.number().min(-2).max(2).default(0).describe("Above 0: fewer repeats"),
  seed: z.int().min(0).max(0xffff_ffff).optional().describe("Default: drawn, and shown"),
  stop: z
    .union([z.string().transform((text) => [text]), z.array(z.string())])
    .prefault([])
    .describe("Texts that end an answer"),
  returnFullText: z
    .boolean()
    .default(false)
    .describe("With api: completion, put the prompt before its continuation"),
});

const output = z.strictObject({
  path: setting("layout", "Directory, or a file such as results.jsonl", z.string().default("out")),
  field: z.string().min(1).default("answer").describe("Column that gets the answer"),
  include: z
    .array(z.enum(["usage", "finishReason", "seconds", "attempts"]))
    .default([])
    .describe("Facts of each answer to keep in a second column, named FIELD + Metadata"),
});

const workers = z.strictObject({
  max: count.optional().describe("Worker processes; default: from cores, memory and engine"),
  cpu: z.number().gt(0).optional().describe("Cores a worker needs"),
  memory: z
    .string()
    .regex(/^\d+(\.\d+)?\s*[KMGT]i?B?$/i)
    .optional()
    .describe("Memory a worker needs, as 120G"),
  gpu: z.string().optional().describe("GPUs a worker needs, as l40s:1"),
});

const plainJob = z.strictObject({
  name: setting("operation", "Name of the job, for people", z.string().optional()),
  input: setting(
    "answers",
    "What to read: a path, an object, or a list of objects",
    z.union([
      z.string().transform((path) => [inputSource.parse({ path })]),
      inputSource.transform((source) => [source]),
      z.array(inputSource).min(1),
    ]),
  ),
  limit: setting("answers", "Take only the first rows", count.optional()),
  sample: setting("answers", "Take this many rows by chance, under the seed", count.optional()),
  shard: setting(
    "layout",
    "How the input is cut into tasks",
    z.strictObject({
      rows: count.optional().describe("Rows a task; default: from size and workers"),
    }),
  ).default({}),
  model: setting("answers", "Which model answers, and how it runs", modelOptions),
  prompt: setting(
    "answers",
    "One prompt; its answer goes into output.field",
    promptOptions.optional(),
  ),
  prompts: setting(
    "answers",
    "Several prompts by name; output.field gets an object with their answers",
    z.record(z.string().min(1), promptOptions).optional(),
  ),
  generation: setting("answers", "How answers are sampled", generation.prefault({})),
  output: setting("answers", "Where results go, and under which name", output.prefault({})),
  workers: setting("operation", "How many workers, and what each needs", workers.prefault({})),
  retries: setting(
    "operation",
    "How often a request is tried",
    z
      .strictObject({
        maxAttempts: count
          .max(100)
          .default(limits.maxAttempts)
          .describe("Tries of one request, the first included"),
      })
      .prefault({}),
  ),
  tasks: setting(
    "operation",
    "How often a task is tried",
    z
      .strictObject({
        maxRetries: z
          .int()
          .min(0)
          .default(limits.maxTaskRetries)
          .describe("Extra tries of a task after its worker died"),
      })
      .prefault({}),
  ),
  maxFailedRows: setting(
    "operation",
    "Stop when more rows failed: a count, or a share such as 0.01",
    z.union([z.int().min(0), z.number().gt(0).lt(1)]).optional(),
  ),
  onRowError: setting(
    "operation",
    "What a failed row does: become a dead letter, or stop the run",
    z.enum(["dead-letter", "fail"]).default("dead-letter"),
  ),
  env: setting(
    "operation",
    "Environment of the workers; a null value passes the caller's, and only its name is planned",
    z.record(z.string(), z.union([z.string(), z.null()])).default({}),
  ),
  budget: setting(
    "operation",
    "A person has thought about the cost: no notice before a hosted endpoint is asked",
    z
      .strictObject({ tokens: count.optional().describe("Tokens the run is expected to use") })
      .optional(),
  ),
  keepJournals: setting(
    "operation",
    "Keep the journals of a sealed run",
    z.boolean().default(false),
  ),
  backend: setting("operation", "Where tasks run", z.enum(["local"]).default("local")),
});

/** The job file's schema: the one source of types, defaults, flags, help, JSON Schema and docs. */
export const jobSchema = plainJob.refine(
  (job) => (job.prompt === undefined) !== (job.prompts === undefined),
  { message: "give exactly one of prompt and prompts", path: ["prompts"] },
);

/** The same without the rule across keys, for what walks its keys. */
export const jobShape = plainJob;

/** A job as it is written. */
export type JobInput = z.input<typeof plainJob>;
/** A job, validated, with defaults filled in. */
export type JobSpec = z.output<typeof plainJob>;
