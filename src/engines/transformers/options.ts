import { z } from "zod";
import { limits } from "../../foundation/limits.ts";
import { atLeastOne, setting } from "../../foundation/setting.ts";
import { batchShape } from "../batching/batch-options.ts";

/** The tasks of a model, by the names of Hugging Face's pipelines. */
export const transformersTasks = [
  "translation",
  "summarization",
  "text-generation",
  "feature-extraction",
  "text-classification",
  "zero-shot-classification",
  "automatic-speech-recognition",
] as const;

export type TransformersTask = (typeof transformersTasks)[number];

/** `model` of a job with engine `transformers`. */
export const transformersModel = z.strictObject({
  engine: z.literal("transformers").describe("The engine that answers requests"),
  task: z.enum(transformersTasks).describe("The model's task"),
  name: z
    .string()
    .min(1)
    .describe("A folder with an ONNX model, such as ./opus; or owner/name on the Hugging Face hub"),
  textColumn: z.string().default("text").describe("Column of the text, if a job has no prompt"),
  audioColumn: z
    .string()
    .default("audio")
    .describe("Column of the recording: path of a WAV file, or data:audio/wav;base64,…"),
  srcLang: z.string().optional().describe("Language of the text, by the model's own code"),
  tgtLang: z.string().optional().describe("Language of the answer, by the model's own code"),
  srcLangColumn: z.string().optional().describe("Column that names the row's own srcLang"),
  tgtLangColumn: z.string().optional().describe("Column that names the row's own tgtLang"),
  pooling: z
    .enum(["mean", "cls", "last", "none"])
    .default("mean")
    .describe("One vector of a text's tokens; none: a vector for each token"),
  normalize: z.boolean().default(true).describe("Vectors of length 1"),
  topLabels: z
    .union([z.literal("all"), atLeastOne])
    .default(1)
    .describe("Likeliest labels to give; above 1 they come as a list"),
  candidateLabels: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("Labels among which zero-shot-classification chooses"),
  candidateLabelsColumn: z
    .string()
    .optional()
    .describe("Column with the row's own candidateLabels: a list, or a text with commas"),
  hypothesisTemplate: z
    .string()
    .default("This example is {}.")
    .describe("Sentence in which {} becomes the label"),
  multiLabel: z.boolean().default(false).describe("Each label is judged alone"),
  timestamps: z.boolean().default(false).describe("Transcripts come in pieces with their times"),
  maxInputTokens: atLeastOne.optional().describe("Most tokens of a text; default: the model's"),
  onTooLong: z
    .enum(["fail", "truncate-left", "truncate-right"])
    .optional()
    .describe("The treatment of longer texts, if a job has no prompt; default fail"),
  dtype: z
    .enum(["fp32", "fp16", "q8", "int8", "uint8", "q4", "q4f16", "bnb4"])
    .default("fp32")
    .describe("Which of the model's files: the type of its weights"),
  device: setting(
    "operation",
    "The device; cuda needs the CUDA libraries of onnxruntime-node in your project",
    z.enum(["cpu", "cuda", "webgpu", "dml", "coreml"]).default("cpu"),
  ),
  threads: setting("operation", "CPU threads; default: cores", atLeastOne.max(1024).optional()),
  ...batchShape,
  lookAheadBatches: setting(
    "operation",
    "Batches of rows that are searched for those of one length; 0: rows go in order",
    z.int().min(0).max(1024).default(limits.lookAheadBatches),
  ),
});

export type TransformersModelOptions = z.output<typeof transformersModel>;
