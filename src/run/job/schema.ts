import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { isEncoding } from "../../data/decoding.ts";
import { inputFormats } from "../../data/formats/format.ts";
import { resultFormatOf } from "../../data/formats/result-format.ts";
import { schemaFault } from "../../data/row-schema.ts";
import { modelOptions } from "../../engines/model-options.ts";
import { describeEngine } from "../../engines/registry.ts";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";
import { answerSchema, promptOptions } from "../../prompt/prompt-options.ts";
import { outputProblem } from "../output/output-form.ts";
import { backendProblems } from "./backend-problems.ts";
import {
  codeEngineOptions,
  kubernetesOptions,
  rayOptions,
  skyOptions,
  slurmOptions,
  workersOptions,
} from "./backend-schemas.ts";
import { type DatasetEntry, datasetInputs, datasetOptions } from "./dataset.ts";
import { generationOptions } from "./generation-schema.ts";
import { trustProblems } from "./trust.ts";
import { loadsCode } from "./worker-variables.ts";

const inputSource = z.strictObject({
  path: z
    .string()
    .describe(
      "A file, a glob or a folder, here, at s3://, r2://, gs:// or hf://, or https://; - = stdin",
    ),
  list: z
    .boolean()
    .optional()
    .describe("`path` is a list of files, one on each line, optionally with `;OUTPUT`"),
  prefixes: z
    .record(z.string(), z.string())
    .optional()
    .describe("With `list`: beginnings of its paths, and their replacements here"),
  format: z
    .enum(inputFormats)
    .optional()
    .describe("Default: by the file's extension; rows of `openai-batch` are complete requests"),
  delimiter: z
    .string()
    .transform((text) => (/^(tab|\\t)$/i.test(text) ? "\t" : text))
    .refine((text) => /^[\t !#-~]$/.test(text), "must be one character of ASCII, as ;, or tab")
    .optional()
    .describe("For `csv`: the delimiter, such as `;`, `|` or `tab`; default: a comma"),
  encoding: z
    .string()
    .refine(
      isEncoding,
      "is not an encoding: windows-1252, iso-8859-15, utf-16, shift_jis and so on",
    )
    .optional()
    .describe("For text, such as windows-1252 or utf-16; such a file is one task. Default: UTF-8"),
  records: z
    .string()
    .min(1)
    .optional()
    .describe(
      "For `json`: key of the list of rows in an object, such as `examples` or `data.items`",
    ),
  columns: z
    .union([
      z.string().transform((names) => names.split(",").map((name) => name.trim())),
      z.array(z.string()).min(1),
    ])
    .optional()
    .describe("Fields that rows keep, in this order: a list, or names with commas; default: all"),
  schema: answerSchema
    .superRefine((schema, context) => {
      const message = schemaFault(schema);
      if (message !== undefined) context.addIssue({ code: "custom", message });
    })
    .optional()
    .describe(
      "JSON Schema of a row: texts are converted to its types; a row that differs fails alone",
    ),
  servedModelName: z
    .union([z.string().transform((name) => [name]), z.array(z.string())])
    .optional()
    .describe("With `openai-batch`: models that lines may name, besides model.name; `*` = any"),
  id: z.string().optional().describe("Field that identifies a row"),
  maxLineBytes: atLeastOne
    .default(limits.maxLineBytes)
    .describe("Longest line; a longer one fails alone"),
});

/** Extensions that result files never have: such a name is probably not meant as a directory. */
const otherFormats = /\.(txt|arrow|feather|avro|orc|xlsx?|gz|zst|br|bz2|lz4|xz)$/i;
const resultPath = z
  .string()
  .refine((path) => !otherFormats.test(path) || resultFormatOf(path) !== undefined, {
    message:
      "names a file of another format: results are .jsonl, .json, .csv, .tsv or .parquet, " +
      "also with .gz, .zst or .br behind it, or a directory",
  });

const output = z.strictObject({
  path: setting(
    "layout",
    "Directory; a file such as results.csv; or many, with {stem}, {dir}, {index}, {id}",
    resultPath.default("out"),
  ),
  field: z.string().min(1).default("answer").describe("Column that gets the answer"),
  include: z
    .array(z.enum(["usage", "finishReason", "seconds", "attempts", "logprobs", "spans"]))
    .default([])
    .describe("Facts of each answer to keep in a second column, named FIELD + Metadata"),
  format: z
    .enum(["jsonl", "json", "csv", "tsv", "parquet", "openai-batch"])
    .optional()
    .describe(
      "Default: by the extension of path, else jsonl; `openai-batch`: responses of the OpenAI Batch " +
        "API, including failed rows",
    ),
  compression: z
    .enum(["none", "gzip", "zstd", "brotli", "snappy"])
    .optional()
    .describe(
      "For whole text files; default: by the extension of path, else none. For Parquet, within " +
        "the file: snappy (default), gzip, zstd, none",
    ),
  perInputFile: z
    .boolean()
    .optional()
    .describe("A file for each input file, with its name: part_0.jsonl gives PATH/part_0.jsonl"),
  stripWhitespace: z
    .boolean()
    .optional()
    .describe("Strip white space from both ends of each text answer"),
  errorFile: z
    .string()
    .optional()
    .describe("With `openai-batch`: the file for failed rows, instead of the results"),
  modelName: z
    .string()
    .min(1)
    .optional()
    .describe("With `openai-batch`: the model's name in the responses; default: model.name"),
});

type Output = z.output<typeof output>;

function checkOutput(given: Output, context: z.RefinementCtx): void {
  const [key, message] = outputProblem(given) ?? [];
  if (key !== undefined) context.addIssue({ code: "custom", path: [key], message: message! });
}

const answerCache = z.strictObject({
  path: z.string().describe("Folder; any number of runs may share it"),
  maxBytes: atLeastOne.default(limits.maxCacheBytes).describe("Above it, answers are removed"),
});

const store = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/ })
    .refine(
      (url) => new URL(url).username === "",
      "holds credentials: give them by the environment",
    )
    .optional()
    .describe("Address of the service; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS"),
  region: z
    .string()
    .min(1)
    .optional()
    .describe("Default: AWS_REGION, at AWS the profile's, us-east-1; auto for r2 and gs"),
  pathStyle: z
    .boolean()
    .optional()
    .describe("Buckets in the path of addresses; default: at an endpoint, not at AWS"),
  conditional: z
    .enum(["if-none-match", "none"])
    .optional()
    .describe(
      "How a file is created only if absent; `none`: impossible, and one coordinator commits",
    ),
});

const allow = z.strictObject({
  folders: z
    .union([z.string().transform((folder) => [folder]), z.array(z.string().min(1))])
    .optional()
    .describe("Folders, besides the input's and the output's, in which rows and lists name files"),
  privateNetworks: z
    .boolean()
    .optional()
    .describe(
      "Whether addresses in rows, lists and redirects may be in loopback and private networks",
    ),
});

const budget = z.strictObject({
  tokens: atLeastOne.optional().describe("Tokens, of prompts and of answers together"),
  usd: z.number().gt(0).optional().describe("US dollars, by `prices`"),
  minutes: z.number().gt(0).optional().describe("Minutes of work, of all calls together"),
});

const price = z.number().min(0);

const prices = z.strictObject({
  promptUsdPerMillion: price.describe("US dollars for a million tokens of prompts"),
  cachedPromptUsdPerMillion: price
    .optional()
    .describe("The same for cached ones; default: the same price"),
  completionUsdPerMillion: price.describe("US dollars for a million tokens of answers"),
  batchShare: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe("With model.via batch: the share of these prices that batches cost; default 0.5"),
});

const plainJob = z.strictObject({
  name: setting("operation", "Name of the job, for people", z.string().optional()),
  input: setting(
    "answers",
    "What to read: a path, an object, or a list of objects",
    z
      .union([
        z
          .string()
          .transform((path) => [{ path }])
          .pipe(z.array(inputSource)),
        inputSource.transform((source) => [source]),
        z.array(inputSource).min(1),
      ])
      .optional(),
  ),
  dataset: setting(
    "answers",
    "Datasets by Axolotl's names, for input and prompt: key=value,key=value, an object, or a list",
    datasetOptions.optional(),
  ),
  sequenceLen: setting(
    "answers",
    "Most tokens of a prompt and its answer; onTooLong decides about longer prompts",
    z.int().min(2).optional(),
  ),
  truncateFeatures: setting(
    "answers",
    "Fields that are emptied before any prompt is rendered: a list, or names with commas",
    z
      .union([z.string().transform((names) => names.split(/[\s,]+/)), z.array(z.string()).min(1)])
      .optional(),
  ),
  longNumbers: setting(
    "answers",
    "Numbers in your code that JavaScript would round: bigint for whole ones, or text for all",
    z.enum(["bigint", "text"]).optional(),
  ),
  limit: setting("answers", "Take only the first rows; 0 takes none", z.int().min(0).optional()),
  sample: setting("answers", "Take this many random rows, under the seed", atLeastOne.optional()),
  shard: setting(
    "layout",
    "How the input is cut into tasks",
    z.strictObject({
      rows: atLeastOne.optional().describe("Rows of a task; default: from input size and workers"),
      count: atLeastOne
        .optional()
        .describe("Number of tasks, instead of their rows: rows are divided evenly"),
    }),
  ).default({}),
  cache: setting(
    "operation",
    "Folder of answers for other runs: a path, or an object",
    z
      .union([
        z
          .string()
          .transform((path) => ({ path }))
          .pipe(answerCache),
        answerCache,
      ])
      .optional(),
  ),
  reuse: setting(
    "operation",
    "auto: equal requests are sent once, if they are not sampled or have a written seed; off: all are sent",
    z.enum(["auto", "off"]).default("auto"),
  ),
  store: setting(
    "operation",
    "Places and abilities of object stores (s3://, r2://, gs://)",
    store.optional(),
  ),
  allow: setting(
    "operation",
    "What rows and lists may read beyond their own folder and the public network",
    allow.optional(),
  ),
  trust: setting(
    "operation",
    "data: no programs, modules or loopback servers; files only of its folders and allow.folders",
    z.enum(["job", "data"]).optional(),
  ),
  order: setting(
    "layout",
    "Order of sending within a task; results are in input order. auto: prefix if it pays",
    z.enum(["auto", "input", "prefix"]).default("auto"),
  ),
  model: setting("answers", "The model, and how it runs", modelOptions),
  prompt: setting(
    "answers",
    "One prompt; its answer goes into output.field",
    promptOptions.optional(),
  ),
  schema: setting(
    "answers",
    "JSON Schema of the answer to `prompt`, which is then JSON",
    answerSchema.optional(),
  ),
  prompts: setting(
    "answers",
    "Several prompts by name; output.field gets an object with their answers",
    z.record(z.string().min(1), promptOptions).optional(),
  ),
  generation: setting(
    "answers",
    "How answers are sampled: an object, or key=value,key=value",
    generationOptions.prefault({}),
  ),
  output: setting(
    "answers",
    "The output: a path, or an object that also names the field",
    z
      .union([
        z
          .string()
          .transform((path): z.input<typeof output> => ({ path }))
          .pipe(output),
        output,
      ])
      .superRefine(checkOutput)
      .prefault({}),
  ),
  workers: setting(
    "operation",
    "How many workers, and what each needs",
    workersOptions.prefault({}),
  ),
  retries: setting(
    "operation",
    "How often a request is tried",
    z
      .strictObject({
        maxAttempts: atLeastOne
          .max(100)
          .default(limits.maxRequestTries)
          .describe("Tries of one request, including the first"),
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
          .describe(
            "Extra tries of a task that failed or whose worker died, without progress in between",
          ),
      })
      .prefault({}),
  ),
  maxFailedRows: setting(
    "operation",
    "Stop when more rows have failed: a count, or a share such as 0.01",
    z.union([z.int().min(0), z.number().gt(0).lt(1)]).optional(),
  ),
  onRowError: setting(
    "operation",
    "The effect of a failed row: a dead letter, or the end of the run",
    z.enum(["dead-letter", "fail"]).default("dead-letter"),
  ),
  env: setting(
    "operation",
    "Environment of the workers; null and references pass the caller's values, and the plan stores only their names",
    z
      .record(z.string(), z.union([z.string(), z.null()]))
      .refine((variables) => Object.keys(variables).every((name) => /^[^\s=]+$/.test(name)), {
        message: "a name of a variable is not empty, and holds neither space nor =",
      })
      .superRefine((variables, context) => {
        for (const [name, value] of Object.entries(variables)) {
          if (!loadsCode(name, value)) continue;
          const message = "would load code into every worker: set it where sluice is called";
          context.addIssue({ code: "custom", path: [name], message });
        }
      })
      .default({}),
  ),
  budget: setting(
    "operation",
    "Limits of the run's cost over all calls: it stops there, and continues once they are raised",
    budget.optional(),
  ),
  prices: setting(
    "operation",
    "Prices of tokens, for estimate, budget and bill",
    prices.optional(),
  ),
  report: setting(
    "layout",
    "The results in the form of another program, as _report.json; adds what it needs to output.include",
    z.enum(["axolotl"]).optional(),
  ),
  preparedDir: setting(
    "operation",
    "Folder of rendered prompts and their tokens for other runs",
    z.string().min(1).optional(),
  ),
  keepJournals: setting(
    "operation",
    "Keep the journals of a sealed run",
    z.boolean().default(false),
  ),
  backend: setting(
    "operation",
    "Where tasks run",
    z.enum(["local", "ray", "slurm", "kubernetes", "sky", "code-engine"]).default("local"),
  ),
  ray: setting("operation", "Settings of `backend: ray`", rayOptions.optional()),
  slurm: setting("operation", "Settings of `backend: slurm`", slurmOptions.optional()),
  kubernetes: setting(
    "operation",
    "Settings of `backend: kubernetes`",
    kubernetesOptions.optional(),
  ),
  sky: setting("operation", "Settings of `backend: sky`", skyOptions.optional()),
  codeEngine: setting(
    "operation",
    "Settings of `backend: code-engine`",
    codeEngineOptions.optional(),
  ),
});

/** Keys of stages whose requests would be sent in batches: a stage cannot wait for those. */
function stagesInBatches({ model }: Pick<z.output<typeof plainJob>, "model">): string[] {
  const stages = model.engine === "pipeline" ? model.stages : [];
  return stages.flatMap((stage, at) => {
    const own = "model" in stage ? stage.model : undefined;
    const isBatch = own?.engine === "openai" && own.via === "batch";
    return isBatch ? [`model.stages.${at}.model.via`] : [];
  });
}

/** The job file's schema: the one source of types, defaults, flags, help, JSON Schema and docs. */
export const jobSchema = plainJob
  .refine(({ input, dataset }) => input !== undefined || dataset !== undefined, {
    path: ["input"],
    message: "is missing: name what to read, as input: {path: rows.jsonl} or --input rows.jsonl",
    // Reported even if other keys are wrong, unless one of these is.
    when: ({ issues }) =>
      issues.every(({ path = [] }) => path[0] !== "input" && path[0] !== "dataset"),
  })
  .superRefine((job, context) => {
    const { input = [], dataset, prompt, prompts, schema, budget, prices, shard } = job;
    const refuse = (key: string, message: string) =>
      context.addIssue({ code: "custom", path: key.split("."), message });
    for (const [at, { path, list, prefixes }] of input.entries()) {
      if (list && path === "-") refuse(`input.${at}.path`, "a list is read from a file, not stdin");
      if (prefixes === undefined || list) continue;
      refuse(`input.${at}.prefixes`, "they are of a list: set input.list too");
    }
    if (schema !== undefined && prompt === undefined && dataset === undefined) {
      const isOfPrompts = "it goes with prompt; each of prompts has its own: prompts.NAME.schema";
      refuse("schema", prompts === undefined ? "it goes with prompt" : isOfPrompts);
    }
    if (prompt?.schema !== undefined && schema !== undefined) {
      refuse("schema", "prompt.schema says it too: give one of them");
    }
    if (shard.rows !== undefined && shard.count !== undefined) {
      refuse("shard.count", "shard.rows sets the size of tasks too: give one of them");
    }
    for (const key of stagesInBatches(job)) {
      refuse(key, "batch is for the rows of runs, not of stages: leave it out");
    }
    for (const [key, message] of trustProblems(job)) refuse(key, message);
    for (const [key, message] of backendProblems(job)) refuse(key, message);
    if (budget?.usd !== undefined && prices === undefined) {
      refuse("budget.usd", "needs prices: what tokens cost");
    }
    if (dataset !== undefined) {
      // A job that was read already has the inputs of its datasets.
      const isOwn = input.length === 0 || isDeepStrictEqual(input, inputsOf(dataset));
      if (!isOwn) refuse("input", "dataset says what is read: give one of them");
      if (prompt !== undefined)
        refuse("prompt", "dataset has prompts of its own: give one of them");
      if (prompts !== undefined)
        refuse("prompts", "dataset has prompts of its own: give one of them");
      return;
    }
    const batches = input.filter(({ format }) => format === "openai-batch");
    if (batches.length === 0) {
      const given = [prompt, prompts].filter((each) => each !== undefined).length;
      // An engine that reads rows needs no text.
      const isOne = given === 1 || (given === 0 && describeEngine(job.model).takesRows === true);
      if (!isOne) refuse("prompts", "give exactly one of prompt and prompts");
    } else if (batches.length < input.length) {
      refuse("input", "openai-batch is for all inputs of a job or for none");
    } else if (prompt !== undefined || prompts !== undefined) {
      const key = prompt === undefined ? "prompts" : "prompt";
      refuse(key, "rows of input.format openai-batch are requests already: leave it out");
    }
  })
  .transform((job) => ({
    ...job,
    input: job.input ?? inputsOf(job.dataset ?? []),
    output: withReportFacts(job),
  }));

function inputsOf(datasets: readonly DatasetEntry[]): z.output<typeof inputSource>[] {
  return datasetInputs(datasets).map(({ input }) => input);
}

/** A report is made from results, which must then hold the tokens of each answer. */
function withReportFacts({ report, output }: PlainJob): PlainJob["output"] {
  if (report === undefined) return output;
  const include = new Set([...output.include, "usage" as const, "seconds" as const]);
  return { ...output, include: [...include] };
}

/** The same without the rule across keys, for code that walks its keys. */
export const jobShape = plainJob;

type PlainJob = z.output<typeof plainJob>;

/** A job as it is written: the type of the schema, as its own interface. */
export type { JobInput } from "./job-input.ts";
/** A job, validated, with defaults filled in. */
export type JobSpec = z.output<typeof jobSchema>;
