// biome-ignore-all lint/suspicious/noExplicitAny: schemas of zod are not records.
// Written by npm run docs from the job's schema: edit that, not this.
import type { Json } from "../../foundation/json.ts";

export interface JobModelLlama {
  /** The engine that answers requests. */
  engine: "llama";
  /** A catalog name, a path to a .gguf file, or hf:owner/repo/file.gguf. */
  name: string;
  /** Requests computed at once; default 32. */
  sequences?: number | undefined;
  /** Most tokens of prompt and answer. */
  contextTokens?: number | undefined;
  /** CPU threads of the model; default: cores. */
  threads?: number | undefined;
  /** Tokens computed in one pass; default 512. */
  batchTokens?: number | undefined;
  /** Layers that the GPU computes; default: as many as fit. */
  gpuLayers?: number | undefined;
  /** GPUs to use, by number or UUID; default: all in CUDA_VISIBLE_DEVICES. */
  devices?: (number | string)[] | undefined;
  /** Number of the main device, which holds undivided data, from 0. */
  mainGpu?: number | undefined;
  /**
   * On a CPU. exact: greedy answers do not depend on other requests, default of runs; fast: a
   * request alone takes two thirds of the time, default of a server.
   */
  precision?: "fast" | "exact" | undefined;
  /** LoRA adapters: a path of a GGUF file, or a list of paths or {path, scale}. */
  lora?: string | (string | JobModelLlamaLora)[] | undefined;
}

export interface JobModelLlamaLora {
  /** A GGUF file. */
  path: string;
  /** Its strength. Default: `1`. */
  scale?: number | undefined;
}

export interface JobModelOpenai {
  /** The engine that answers requests. */
  engine: "openai";
  /** The model's name on the server. */
  name: string;
  /** Address up to and including /v1; default https://api.openai.com/v1. */
  baseUrl?: string | undefined;
  /** Several servers of the same model, in place of baseUrl. */
  endpoints?: JobModelOpenaiEndpoints[] | undefined;
  /** Environment variable with the API key; default, for OpenAI only: OPENAI_API_KEY. */
  apiKeyEnv?: string | undefined;
  /**
   * How requests are sent: one by one, or in files of the provider's batch API. Default:
   * `"requests"`.
   */
  via?: "requests" | "batch" | undefined;
  /** With via: batch: the batches. */
  batch?: JobModelOpenaiBatch | undefined;
  /** Requests at once to one endpoint; default: found automatically. */
  maxInFlight?: number | undefined;
  /** Requests a minute to one endpoint; default: from its rate-limit headers. */
  requestsPerMinute?: number | undefined;
  /** Tokens a minute to one endpoint, of prompts and answers; default: from its headers. */
  tokensPerMinute?: number | undefined;
  /** Texts of one embedding request; default 32. */
  maxBatchRows?: number | undefined;
  /** Additional fields of each request, by the server's names. */
  extraBody?: Record<string, Json> | undefined;
  /** Longest time of one request. Default: `600000`. */
  timeoutMs?: number | undefined;
  /**
   * Time in which refused connections are tried again before the first row; 0: no check. Default:
   * `10000`.
   */
  firstAnswerMs?: number | undefined;
  /** Longest outage of the endpoint before the run stops, resumable. Default: `600000`. */
  maxEndpointDownMs?: number | undefined;
  /**
   * How the server is asked to follow a schema; none: answers are only checked. Default:
   * `"response-format"`.
   */
  structuredOutput?: "response-format" | "grammar" | "structured-outputs" | "none" | undefined;
  /** Context of the model, if the server does not check it. */
  contextTokens?: number | undefined;
}

export interface JobModelOpenaiEndpoints {
  /** Address up to and including /v1. */
  baseUrl: string;
  /** Its share of the requests, relative to the others'. Default: `1`. */
  weight?: number | undefined;
  /** Environment variable with its API key; default: model.apiKeyEnv. */
  apiKeyEnv?: string | undefined;
}

/** With via: batch: the batches. */
export interface JobModelOpenaiBatch {
  /** Batches at the provider at once, of all workers together. Default: `4`. */
  maxBatches?: number | undefined;
  /** Requests of one batch; a larger task becomes several batches. Default: `50000`. */
  maxRequests?: number | undefined;
  /** Bytes of the file of one batch. Default: `200000000`. */
  maxFileBytes?: number | undefined;
  /** How long a batch waits for another request of its task before it is sent. Default: `2000`. */
  maxBatchDelayMs?: number | undefined;
  /**
   * Shortest time between two looks at a batch; it grows to a 20th of the batch's age. Default:
   * `15000`.
   */
  pollMs?: number | undefined;
  /** Longest time between two looks at a batch. Default: `300000`. */
  maxPollMs?: number | undefined;
  /**
   * Leave files of requests and results at the provider when the run has its answers. Default:
   * `false`.
   */
  keepFiles?: boolean | undefined;
}

export interface JobModelLlamaServer {
  /** The engine that answers requests. */
  engine: "llama-server";
  /** A catalog name, a path to a .gguf file, or hf:owner/repo/file.gguf. */
  name: string;
  /** Program to start: a name on PATH, a path, or a list with its first arguments. */
  command?: string | string[] | undefined;
  /** Further arguments of the server; they override those of Sluice. Default: `[]`. */
  args?: (string | number)[] | undefined;
  /** Requests computed at once; default 32. */
  sequences?: number | undefined;
  /** Most tokens of prompt and answer; default 2048. */
  contextTokens?: number | undefined;
  /** CPU threads of the server; default: its own. */
  threads?: number | undefined;
  /** Layers that the GPU computes; default: the server's own. */
  gpuLayers?: number | undefined;
  /** GPUs to use, by number or UUID; default: all in CUDA_VISIBLE_DEVICES. */
  devices?: (number | string)[] | undefined;
  /** Requests in flight to a server; default: its parallel requests and a quarter more. */
  maxInFlight?: number | undefined;
  /** Texts of one embedding request; default 32. */
  maxBatchRows?: number | undefined;
  /** Additional fields of each request, by the server's names. */
  extraBody?: Record<string, Json> | undefined;
  /** Longest time of one request. Default: `600000`. */
  timeoutMs?: number | undefined;
  /** Longest outage of the endpoint before the run stops, resumable. Default: `600000`. */
  maxEndpointDownMs?: number | undefined;
  /** Longest time until a server answers, including its own downloads. Default: `1800000`. */
  loadTimeoutMs?: number | undefined;
  /**
   * How the server is asked to follow a schema; none: answers are only checked. Default:
   * `"grammar"`.
   */
  structuredOutput?: "response-format" | "grammar" | "structured-outputs" | "none" | undefined;
}

export interface JobModelVllm {
  /** The engine that answers requests. */
  engine: "vllm";
  /** A model on the Hugging Face hub, such as owner/repo, or a folder. */
  name: string;
  /** Program to start: a name on PATH, a path, or a list with its first arguments. */
  command?: string | string[] | undefined;
  /** Further arguments of the server; they override those of Sluice. Default: `[]`. */
  args?: (string | number)[] | undefined;
  /** Requests computed at once; default: the server's own. */
  sequences?: number | undefined;
  /** Most tokens of prompt and answer; default: the model's. */
  contextTokens?: number | undefined;
  /** GPUs to use, by number or UUID; default: all in CUDA_VISIBLE_DEVICES. */
  devices?: (number | string)[] | undefined;
  /** Requests in flight to a server; default: its parallel requests and a quarter more. */
  maxInFlight?: number | undefined;
  /** Texts of one embedding request; default 32. */
  maxBatchRows?: number | undefined;
  /** Additional fields of each request, by the server's names. */
  extraBody?: Record<string, Json> | undefined;
  /** Longest time of one request. Default: `600000`. */
  timeoutMs?: number | undefined;
  /** Longest outage of the endpoint before the run stops, resumable. Default: `600000`. */
  maxEndpointDownMs?: number | undefined;
  /** Longest time until a server answers, including its own downloads. Default: `1800000`. */
  loadTimeoutMs?: number | undefined;
  /**
   * How the server is asked to follow a schema; none: answers are only checked. Default:
   * `"structured-outputs"`.
   */
  structuredOutput?: "response-format" | "grammar" | "structured-outputs" | "none" | undefined;
}

export interface JobModelOpenvino {
  /** The engine that answers requests. */
  engine: "openvino";
  /**
   * A catalog name, a path to a .gguf file, hf:owner/repo/file.gguf, or a folder in OpenVINO's
   * form.
   */
  name: string;
  /** The device, by OpenVINO's name; default CPU. */
  device?: "CPU" | "GPU" | "NPU" | "AUTO" | undefined;
  /** Requests computed at once; default 64. */
  sequences?: number | undefined;
  /** Most tokens of prompt and answer; default: the model's. */
  contextTokens?: number | undefined;
  /** CPU threads of the model; default: cores. */
  threads?: number | undefined;
  /** Tokens computed in one step; default 512. */
  batchTokens?: number | undefined;
  /**
   * fast: 8-bit activations and cache, greedy answers may depend on the batch; exact: they almost
   * never do, at about 60 % of the speed. Default: `"fast"`.
   */
  precision?: "fast" | "exact" | undefined;
  /** Memory for keys and values, in GiB; default: a quarter of the free memory, 1 to 8. */
  cacheGib?: number | undefined;
}

export interface JobModelCommand {
  /** The engine that answers requests. */
  engine: "command";
  /** Name of the model, for reports. Default: `"command"`. */
  name?: string | undefined;
  /** Program that answers batches: a name on PATH, or a path, such as ./predict. */
  command: string;
  /** Its arguments. Default: `[]`. */
  args?: (string | number)[] | undefined;
  /** SHA-256 of the files among them, which Sluice fills in: if it changes, it is another run. */
  filesSha256?: string | undefined;
  /** Its working directory; default: the folder of the job file. */
  workingDirectory?: string | undefined;
  /** Most rows of a batch, default 32; auto: as many as make it faster. */
  maxBatchRows?: "auto" | number | undefined;
  /** Most characters of a batch. */
  maxBatchChars?: number | undefined;
  /** Most tokens of a batch, each row padded to the longest; rows of one length go together. */
  maxBatchTokens?: number | undefined;
  /** How long an incomplete batch waits for more rows. Default: `0`. */
  maxBatchDelayMs?: number | undefined;
  /** Instances of the model for each worker, each in its own process; default 1. */
  replicas?: number | undefined;
  /** CPU threads of each replica; default: the cores, divided among them. */
  threads?: number | undefined;
  /** GPUs to use, by number or UUID, or all; each replica gets its own. Default: none. */
  devices?: "all" | (number | string)[] | undefined;
  /**
   * Longest time to load a replica; then its process is ended, and the run stops. Default:
   * `600000`.
   */
  loadTimeoutMs?: number | undefined;
  /**
   * Longest time of a batch; then its process, if it has one, is ended, and its rows are sent again
   * in smaller groups. Default: `600000`.
   */
  timeoutMs?: number | undefined;
}

export interface JobModelPredictor {
  /** The engine that answers requests. */
  engine: "predictor";
  /** Name of the model, which is passed to the module. Default: `"predictor"`. */
  name?: string | undefined;
  /** The module with your code: a path, such as ./predict.ts. */
  module: string;
  /** SHA-256 of the module's file, which Sluice fills in: if it changes, it is another run. */
  moduleSha256?: string | undefined;
  /** Name of the module's export to use; default: its default export, or all of them. */
  export?: string | undefined;
  /** Passed to the module's load() as context.options. Default: `{}`. */
  options?: Record<string, any> | undefined;
  /** Most rows of a batch, default 32; auto: as many as make it faster. */
  maxBatchRows?: "auto" | number | undefined;
  /** Most characters of a batch. */
  maxBatchChars?: number | undefined;
  /** Most tokens of a batch, each row padded to the longest; rows of one length go together. */
  maxBatchTokens?: number | undefined;
  /** How long an incomplete batch waits for more rows. Default: `0`. */
  maxBatchDelayMs?: number | undefined;
  /** Instances of the model for each worker, each in its own process; default 1. */
  replicas?: number | undefined;
  /** CPU threads of each replica; default: the cores, divided among them. */
  threads?: number | undefined;
  /** GPUs to use, by number or UUID, or all; each replica gets its own. Default: none. */
  devices?: "all" | (number | string)[] | undefined;
  /**
   * Longest time to load a replica; then its process is ended, and the run stops. Default:
   * `600000`.
   */
  loadTimeoutMs?: number | undefined;
  /**
   * Longest time of a batch; then its process, if it has one, is ended, and its rows are sent again
   * in smaller groups. Default: `600000`.
   */
  timeoutMs?: number | undefined;
}

export interface JobModelTransformers {
  /** The engine that answers requests. */
  engine: "transformers";
  /** The model's task. */
  task:
    | "translation"
    | "summarization"
    | "text-generation"
    | "feature-extraction"
    | "text-classification"
    | "zero-shot-classification"
    | "automatic-speech-recognition";
  /** A folder with an ONNX model, such as ./opus; or owner/name on the Hugging Face hub. */
  name: string;
  /** Column of the text, if a job has no prompt. Default: `"text"`. */
  textColumn?: string | undefined;
  /**
   * Column of the recording: path of a WAV file, or data:audio/wav;base64,…. Default: `"audio"`.
   */
  audioColumn?: string | undefined;
  /** Language of the text, by the model's own code. */
  srcLang?: string | undefined;
  /** Language of the answer, by the model's own code. */
  tgtLang?: string | undefined;
  /** Column that names the row's own srcLang. */
  srcLangColumn?: string | undefined;
  /** Column that names the row's own tgtLang. */
  tgtLangColumn?: string | undefined;
  /** One vector of a text's tokens; none: a vector for each token. Default: `"mean"`. */
  pooling?: "mean" | "cls" | "last" | "none" | undefined;
  /** Vectors of length 1. Default: `true`. */
  normalize?: boolean | undefined;
  /** Likeliest labels to give; above 1 they come as a list. Default: `1`. */
  topLabels?: "all" | number | undefined;
  /** Labels among which zero-shot-classification chooses. */
  candidateLabels?: string[] | undefined;
  /** Column with the row's own candidateLabels: a list, or a text with commas. */
  candidateLabelsColumn?: string | undefined;
  /** Sentence in which {} becomes the label. Default: `"This example is {}."`. */
  hypothesisTemplate?: string | undefined;
  /** Each label is judged alone. Default: `false`. */
  multiLabel?: boolean | undefined;
  /** Transcripts come in pieces with their times. Default: `false`. */
  timestamps?: boolean | undefined;
  /** Most tokens of a text; default: the model's. */
  maxInputTokens?: number | undefined;
  /** The treatment of longer texts, if a job has no prompt; default fail. */
  onTooLong?: "fail" | "truncate-left" | "truncate-right" | undefined;
  /** Which of the model's files: the type of its weights. Default: `"fp32"`. */
  dtype?: "fp32" | "fp16" | "q8" | "int8" | "uint8" | "q4" | "q4f16" | "bnb4" | undefined;
  /**
   * The device; cuda needs the CUDA libraries of onnxruntime-node in your project. Default:
   * `"cpu"`.
   */
  device?: "cpu" | "cuda" | "webgpu" | "dml" | "coreml" | undefined;
  /** CPU threads; default: cores. */
  threads?: number | undefined;
  /** Most rows of a batch, default 32; auto: as many as make it faster. */
  maxBatchRows?: "auto" | number | undefined;
  /** Most characters of a batch. */
  maxBatchChars?: number | undefined;
  /** Most tokens of a batch, each row padded to the longest; rows of one length go together. */
  maxBatchTokens?: number | undefined;
  /** How long an incomplete batch waits for more rows. Default: `0`. */
  maxBatchDelayMs?: number | undefined;
  /**
   * Batches of rows that are searched for those of one length; 0: rows go in order. Default: `8`.
   */
  lookAheadBatches?: number | undefined;
}

export interface JobModelFake {
  /** The engine that answers requests. */
  engine: "fake";
  /** Name of the model, for reports. Default: `"fake"`. */
  name?: string | undefined;
  /** Duration of an answer: a number, or a distribution. Default: `0`. */
  latencyMs?: number | JobModelFakeLatencyMs | JobModelFakeLatencyMs2 | undefined;
  /** Requests it holds at once. Default: `64`. */
  capacity?: number | undefined;
  /** Share of requests that fail, retryable. Default: `0`. */
  failureRate?: number | undefined;
  /** Failures by row index or by share of rows. Default: `[]`. */
  failures?: JobModelFakeFailures[] | undefined;
  /** File that gets a line for each request. */
  countFile?: string | undefined;
  /** Answers follow from it and from the request. Default: `0`. */
  seed?: number | undefined;
}

/** Even. */
export interface JobModelFakeLatencyMs {
  /** Least milliseconds. */
  min: number;
  /** Most milliseconds. */
  max: number;
}

/** Exponential. */
export interface JobModelFakeLatencyMs2 {
  /** Milliseconds on average. */
  mean: number;
}

export interface JobModelFakeFailures {
  /** Index of the row that fails. */
  row?: number | undefined;
  /** Share of rows that fail. */
  rate?: number | undefined;
  /** How it fails. */
  kind:
    | "retryable"
    | "refused"
    | "invalid"
    | "fatal-run"
    | "kill-engine"
    | "kill-worker"
    | "stall-worker";
}

export interface JobModelProgram {
  /** The engine that answers requests. */
  engine: "program";
  /** Name of the fleet, which programs are told. Default: `"program"`. */
  name?: string | undefined;
  /** Program and first arguments of rows without `cmds`. Default: `[]`. */
  command?: string[] | undefined;
  /** Arguments of rows without `args`. Default: `[]`. */
  args?: string[] | undefined;
  /** Working directory of the programs; default: the folder of the job file. */
  workingDirectory?: string | undefined;
  /** Longest time of a try; then the program and its children are ended. Default: no limit. */
  timeoutMs?: number | undefined;
  /** Programs that each worker runs side by side. Default: `1`. */
  instances?: number | undefined;
  /** Cores that each program books: a worker with fewer runs fewer side by side. */
  cpu?: number | undefined;
  /**
   * Whether programs compute on GPUs: each worker then has its own, as workers.gpu says. Default:
   * `false`.
   */
  gpus?: boolean | undefined;
  /** What programs are told of all tasks, as SLUICE_TASK_COUNT and SLURM_ARRAY_TASK_MIN. */
  array?: JobModelProgramArray | undefined;
  /** Container image that programs run in. */
  image?: string | undefined;
  /** Name of the secret with which a scheduler pulls the image. */
  registrySecret?: string | undefined;
  /**
   * Names of variables of the worker that programs in an image get; without one they get all.
   * Default: `[]`.
   */
  variables?: string[] | undefined;
  /** Places of objects: staged in before a program, results staged out after it. Default: `[]`. */
  mounts?: JobModelProgramMounts[] | undefined;
}

/** What programs are told of all tasks, as SLUICE_TASK_COUNT and SLURM_ARRAY_TASK_MIN. */
export interface JobModelProgramArray {
  /** Number of tasks. */
  count: number;
  /** Lowest index. */
  min: number;
  /** Highest index. */
  max: number;
}

export interface JobModelProgramMounts {
  /** Where programs find it, such as /input. */
  path: string;
  /** Name of the store, for people. */
  store?: string | undefined;
  /** What is there: a folder, or s3://BUCKET/PREFIX, r2://…, gs://…. */
  location: string;
}

export interface JobModelPipeline {
  /** The engine that answers requests. */
  engine: "pipeline";
  /** Name of the model, for reports. Default: `"pipeline"`. */
  name?: string | undefined;
  /** The stages of a row, in order. */
  stages: JobModelPipelineStages[];
  /** Rows of the input contain dates and typed arrays of a dataset. */
  typedInput?: boolean | undefined;
  /** Results contain dates and typed arrays, for a later dataset. */
  typedOutput?: boolean | undefined;
  /** Resources of each worker's replicas together; default: the worker's machine. */
  resources?: JobModelPipelineResources | undefined;
}

export interface JobModelPipelineStages {
  /** What the stage does with each row, or batch of rows. */
  kind: "map" | "filter" | "flatMap" | "select" | "rename" | "mapBatches" | "generate";
  /** Name of the stage, for people. */
  name?: string | undefined;
  /** The module with the stage's function or class. */
  module?: string | undefined;
  /** SHA-256 of its file, which Sluice fills in. */
  moduleSha256?: string | undefined;
  /** Name of the module's export; default: its default one. */
  export?: string | undefined;
  /** Instead of a module, from the TypeScript API. */
  closure?: JobModelPipelineStagesClosure | undefined;
  /** map: column that gets the result, beside the others. */
  column?: string | undefined;
  /** select: columns to keep; rename: new names by old ones. */
  columns?: string[] | Record<string, string> | undefined;
  /** mapBatches: rows of each batch, exactly, until a task ends; default: by the size of rows. */
  batchSize?: number | undefined;
  /** mapBatches: `any` = a batch may become any number of rows; default: one for each. */
  rows?: "same" | "any" | undefined;
  /** For `rows: any`: the batch size, which decides results; Sluice fills it in. */
  batchRows?: number | undefined;
  /** mapBatches: form of a batch. */
  batchFormat?: "rows" | "columns" | undefined;
  /** mapBatches: arguments of a class's constructor. */
  constructorArgs?: unknown[] | undefined;
  /** Replicas, each in its own process; default 1, or as many as numCpus or numGpus allow. */
  concurrency?: number | undefined;
  /** Cores of a replica. */
  numCpus?: number | undefined;
  /** GPUs of a replica, such as 1 or 0.5. */
  numGpus?: number | undefined;
  /** Memory of a replica. */
  memoryBytes?: number | undefined;
  /**
   * Longest time to load its code in a process; then that is ended, and the run stops. Default:
   * `600000`.
   */
  loadTimeoutMs?: number | undefined;
  /**
   * Longest time of a batch; then its process, if it has one, is ended, and its rows are sent again
   * in smaller groups. Default: `600000`.
   */
  timeoutMs?: number | undefined;
  /** generate: the model, as in any job. */
  model?: Record<string, any> | undefined;
  /** generate: one prompt, as in any job. */
  prompt?: unknown | undefined;
  /** generate: several prompts by name. */
  prompts?: Record<string, any> | undefined;
  /** generate: JSON Schema of the answer. */
  schema?: Record<string, any> | undefined;
  /** generate: how answers are sampled. */
  generation?: Record<string, any> | undefined;
  /** generate: column that gets the answer. */
  field?: string | undefined;
}

/** Instead of a module, from the TypeScript API. */
export interface JobModelPipelineStagesClosure {
  /** Its number among the functions of the program. */
  at: number;
  /** Its name, or none. */
  name: string;
  /** SHA-256 of its text: if it changes, it is another run. */
  sha256: string;
}

/** Resources of each worker's replicas together; default: the worker's machine. */
export interface JobModelPipelineResources {
  /** Cores. */
  cpus?: number | undefined;
  /** GPUs. */
  gpus?: number | undefined;
  /** Memory; default: the free memory. */
  memoryBytes?: number | undefined;
}
