// biome-ignore-all lint/suspicious/noExplicitAny: schemas of zod are not records.
// Written by npm run docs from the job's schema: edit that, not this.
import type { Json } from "../../foundation/json.ts";
import type {
  JobModelCommand,
  JobModelFake,
  JobModelLlama,
  JobModelLlamaServer,
  JobModelOpenai,
  JobModelOpenvino,
  JobModelPipeline,
  JobModelPredictor,
  JobModelProgram,
  JobModelTransformers,
  JobModelVllm,
} from "./model-input.ts";

/** A job as it is written. */
export interface JobInput {
  /** Name of the job, for people. */
  name?: string | undefined;
  /** What to read: a path, an object, or a list of objects. */
  input?: string | JobInputSource | JobInputSource[] | undefined;
  /**
   * Datasets by Axolotl's names, for input and prompt: key=value,key=value, an object, or a list.
   */
  dataset?: string | JobDataset | JobDataset[] | undefined;
  /** Most tokens of a prompt and its answer; onTooLong decides about longer prompts. */
  sequenceLen?: number | undefined;
  /** Fields that are emptied before any prompt is rendered: a list, or names with commas. */
  truncateFeatures?: string | string[] | undefined;
  /** Numbers in your code that JavaScript would round: bigint for whole ones, or text for all. */
  longNumbers?: "bigint" | "text" | undefined;
  /** Take only the first rows; 0 takes none. */
  limit?: number | undefined;
  /** Take this many random rows, under the seed. */
  sample?: number | undefined;
  /** How the input is cut into tasks. Default: `{}`. */
  shard?: JobShard | undefined;
  /** Folder of answers for other runs: a path, or an object. */
  cache?: string | JobCache | undefined;
  /**
   * auto: equal requests are sent once, if they are not sampled or have a written seed; off: all
   * are sent. Default: `"auto"`.
   */
  reuse?: "auto" | "off" | undefined;
  /** Places and abilities of object stores (s3://, r2://, gs://). */
  store?: JobStore | undefined;
  /** What rows and lists may read beyond their own folder and the public network. */
  allow?: JobAllow | undefined;
  /**
   * data: no programs, modules or loopback servers; files only of its folders and allow.folders.
   */
  trust?: "job" | "data" | undefined;
  /**
   * Order of sending within a task; results are in input order. auto: prefix if it pays. Default:
   * `"auto"`.
   */
  order?: "auto" | "input" | "prefix" | undefined;
  /** The model, and how it runs. */
  model:
    | JobModelLlama
    | JobModelOpenai
    | JobModelLlamaServer
    | JobModelVllm
    | JobModelOpenvino
    | JobModelCommand
    | JobModelPredictor
    | JobModelTransformers
    | JobModelFake
    | JobModelProgram
    | JobModelPipeline;
  /** One prompt; its answer goes into output.field. */
  prompt?: string | JobPrompt | undefined;
  /** JSON Schema of the answer to `prompt`, which is then JSON. */
  schema?: Record<string, any> | undefined;
  /** Several prompts by name; output.field gets an object with their answers. */
  prompts?: Record<string, string | JobPrompt> | undefined;
  /** How answers are sampled: an object, or key=value,key=value. Default: `{}`. */
  generation?: string | JobGeneration | undefined;
  /** The output: a path, or an object that also names the field. Default: `{}`. */
  output?: string | JobOutput | undefined;
  /** How many workers, and what each needs. Default: `{}`. */
  workers?: JobWorkers | undefined;
  /** How often a request is tried. Default: `{}`. */
  retries?: JobRetries | undefined;
  /** How often a task is tried. Default: `{}`. */
  tasks?: JobTasks | undefined;
  /** Stop when more rows have failed: a count, or a share such as 0.01. */
  maxFailedRows?: number | undefined;
  /** The effect of a failed row: a dead letter, or the end of the run. Default: `"dead-letter"`. */
  onRowError?: "dead-letter" | "fail" | undefined;
  /**
   * Environment of the workers; null and references pass the caller's values, and the plan stores
   * only their names. Default: `{}`.
   */
  env?: Record<string, string | null> | undefined;
  /**
   * Limits of the run's cost over all calls: it stops there, and continues once they are raised.
   */
  budget?: JobBudget | undefined;
  /** Prices of tokens, for estimate, budget and bill. */
  prices?: JobPrices | undefined;
  /**
   * The results in the form of another program, as _report.json; adds what it needs to
   * output.include.
   */
  report?: "axolotl" | undefined;
  /** Folder of rendered prompts and their tokens for other runs. */
  preparedDir?: string | undefined;
  /** Keep the journals of a sealed run. Default: `false`. */
  keepJournals?: boolean | undefined;
  /** Where tasks run. Default: `"local"`. */
  backend?: "local" | "ray" | "slurm" | "kubernetes" | "sky" | "code-engine" | undefined;
  /** Settings of `backend: ray`. */
  ray?: JobRay | undefined;
  /** Settings of `backend: slurm`. */
  slurm?: JobSlurm | undefined;
  /** Settings of `backend: kubernetes`. */
  kubernetes?: JobKubernetes | undefined;
  /** Settings of `backend: sky`. */
  sky?: JobSky | undefined;
  /** Settings of `backend: code-engine`. */
  codeEngine?: JobCodeEngine | undefined;
}

export interface JobInputSource {
  /** A file, a glob or a folder, here, at s3://, r2://, gs:// or hf://, or https://; - = stdin. */
  path: string;
  /** `path` is a list of files, one on each line, optionally with `;OUTPUT`. */
  list?: boolean | undefined;
  /** With `list`: beginnings of its paths, and their replacements here. */
  prefixes?: Record<string, string> | undefined;
  /** Default: by the file's extension; rows of `openai-batch` are complete requests. */
  format?:
    | "jsonl"
    | "json"
    | "csv"
    | "tsv"
    | "parquet"
    | "arrow"
    | "text"
    | "text-file"
    | "files"
    | "openai-batch"
    | undefined;
  /** For `csv`: the delimiter, such as `;`, `|` or `tab`; default: a comma. */
  delimiter?: string | undefined;
  /** For text, such as windows-1252 or utf-16; such a file is one task. Default: UTF-8. */
  encoding?: string | undefined;
  /** For `json`: key of the list of rows in an object, such as `examples` or `data.items`. */
  records?: string | undefined;
  /** Fields that rows keep, in this order: a list, or names with commas; default: all. */
  columns?: string | string[] | undefined;
  /** JSON Schema of a row: texts are converted to its types; a row that differs fails alone. */
  schema?: Record<string, any> | undefined;
  /** With `openai-batch`: models that lines may name, besides model.name; `*` = any. */
  servedModelName?: string | string[] | undefined;
  /** Field that identifies a row. */
  id?: string | undefined;
  /** Longest line; a longer one fails alone. Default: `16777216`. */
  maxLineBytes?: number | undefined;
}

export interface JobDataset {
  /** Its name in results; default: the file's name without its extension. */
  name?: string | undefined;
  /** A file or a glob; beside data_files their folder. */
  path: string;
  /** The prompt type of its rows, by Axolotl's name or as your own map. */
  type: string | JobDatasetType;
  /** completion: field of the text; default text. */
  field?: string | undefined;
  /** Field of the list of messages; default messages or conversations, by the type. */
  field_messages?: string | undefined;
  /** chat_template: field of a system message that the list lacks; default system. */
  field_system?: string | undefined;
  /** chat_template: keys of a message's role and content; default role and content. */
  message_property_mappings?: JobDatasetMessagePropertyMappings | undefined;
  /** Older name of the mapping of role. */
  message_field_role?: string | undefined;
  /** Older name of the mapping of content. */
  message_field_content?: string | undefined;
  /** chat_template: for user, assistant and system, the names in the data. */
  roles?: Record<string, string[]> | undefined;
  /** chat_template: leave it out. */
  drop_system_message?: boolean | undefined;
  /** sharegpt: name of the user's role; default human. */
  field_human?: string | undefined;
  /** sharegpt: name of the model's role; default gpt. */
  field_model?: string | undefined;
  /** sharegpt: send text of this form instead of messages. */
  conversation?: "vicuna_v1.1" | "chatml" | undefined;
  /**
   * With a type of conversations: which turn is sent; default `last`. `every` sends them in order,
   * each after the model's own answers, and gives a list.
   */
  turns?: "first" | "last" | "every" | undefined;
  /**
   * `completion` sends the rendered prompt unchanged, without a chat template; `embedding` requests
   * its vector; `transcription` the speech in `file` as text; default `chat`, with a `type` the
   * type's own form.
   */
  api?: "chat" | "completion" | "embedding" | "transcription" | undefined;
  /** What to do with a prompt that does not fit the model's context. Default: `"fail"`. */
  onTooLong?: "fail" | "truncate-left" | "truncate-right" | undefined;
  /** Fields that are emptied before the prompt is rendered. */
  truncateFeatures?: string[] | undefined;
  /** Strip white space from both ends of a completion's prompt. */
  stripWhitespace?: boolean | undefined;
  /** Text of the end-of-sequence token, which is removed from the end of a completion's prompt. */
  eosToken?: string | undefined;
  /** Its files, from the folder `path`. */
  data_files?: string | string[] | undefined;
  /** Its format by Axolotl's name; json also means JSON Lines, by the file's extension. */
  ds_type?: "json" | "text" | undefined;
  /** Default: by the file's extension. */
  format?: "jsonl" | "json" | "text" | undefined;
  /** The only split of files; accepted without effect. */
  split?: "train" | undefined;
  /** Field that identifies a row. */
  id?: string | undefined;
  /** Longest line; a longer one fails alone. Default: `16777216`. */
  maxLineBytes?: number | undefined;
}

export interface JobDatasetType {
  /** Field of {instruction}. Default: `"instruction"`. */
  field_instruction?: string | undefined;
  /** Field of {input}; may be absent or empty. Default: `"input"`. */
  field_input?: string | undefined;
  /** Field of the expected answer, which is not sent. */
  field_output?: string | undefined;
  /** Field of {system}; may be absent. Default: `"system"`. */
  field_system?: string | undefined;
  /** {system} of rows without that field. Default: `""`. */
  system_prompt?: string | undefined;
  /** Text of a row with an input. Default: `"{instruction} {input} "`. */
  format?: string | undefined;
  /** Text of a row without one. Default: `"{instruction} "`. */
  no_input_format?: string | undefined;
  /** Text before it, unless {system} is empty. Default: `"{system}"`. */
  system_format?: string | undefined;
}

/** chat_template: keys of a message's role and content; default role and content. */
export interface JobDatasetMessagePropertyMappings {
  /** Key of a message's role; default role. */
  role?: string | undefined;
  /** Key of a message's content; default content. */
  content?: string | undefined;
}

/** How the input is cut into tasks. Default: `{}`. */
export interface JobShard {
  /** Rows of a task; default: from input size and workers. */
  rows?: number | undefined;
  /** Number of tasks, instead of their rows: rows are divided evenly. */
  count?: number | undefined;
}

export interface JobCache {
  /** Folder; any number of runs may share it. */
  path: string;
  /** Above it, answers are removed. Default: `1073741824`. */
  maxBytes?: number | undefined;
}

/** Places and abilities of object stores (s3://, r2://, gs://). */
export interface JobStore {
  /** Address of the service; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS. */
  endpoint?: string | undefined;
  /** Default: AWS_REGION, at AWS the profile's, us-east-1; auto for r2 and gs. */
  region?: string | undefined;
  /** Buckets in the path of addresses; default: at an endpoint, not at AWS. */
  pathStyle?: boolean | undefined;
  /** How a file is created only if absent; `none`: impossible, and one coordinator commits. */
  conditional?: "if-none-match" | "none" | undefined;
}

/** What rows and lists may read beyond their own folder and the public network. */
export interface JobAllow {
  /** Folders, besides the input's and the output's, in which rows and lists name files. */
  folders?: string | string[] | undefined;
  /** Whether addresses in rows, lists and redirects may be in loopback and private networks. */
  privateNetworks?: boolean | undefined;
}

export interface JobPrompt {
  /** Jinja template over the row's fields. */
  prompt?: string | undefined;
  /** A conversation instead of `prompt`. */
  messages?: JobPromptMessages[] | undefined;
  /** A prompt type of Axolotl instead of `prompt`: a name, or your own type. */
  type?: string | JobDatasetType | undefined;
  /** Options of the type, by Axolotl's names. */
  typeOptions?: JobPromptTypeOptions | undefined;
  /**
   * With a type of conversations: which turn is sent; default `last`. `every` sends them in order,
   * each after the model's own answers, and gives a list.
   */
  turns?: "first" | "last" | "every" | undefined;
  /** Jinja template of a system message before the prompt. */
  system?: string | undefined;
  /** Jinja expression for a list; one request for each `item`, answers come as a list. */
  forEach?: string | undefined;
  /** Answer by a line with slots that only copy. */
  answer?: JobPromptAnswer | undefined;
  /** JSON Schema of the answer, which is then JSON. */
  schema?: Record<string, any> | undefined;
  /**
   * `completion` sends the rendered prompt unchanged, without a chat template; `embedding` requests
   * its vector; `transcription` the speech in `file` as text; default `chat`, with a `type` the
   * type's own form.
   */
  api?: "chat" | "completion" | "embedding" | "transcription" | undefined;
  /**
   * Jinja template of the path of a sound file, with `api: transcription`; from the folder of the
   * input.
   */
  file?: string | undefined;
  /** Jinja template of the path of an image for `prompt`; from the folder of the input. */
  image?: string | undefined;
  /** What to do with a prompt that does not fit the model's context. Default: `"fail"`. */
  onTooLong?: "fail" | "truncate-left" | "truncate-right" | undefined;
  /** Fields that are emptied before the prompt is rendered. */
  truncateFeatures?: string[] | undefined;
  /** Strip white space from both ends of a completion's prompt. */
  stripWhitespace?: boolean | undefined;
  /** Text of the end-of-sequence token, which is removed from the end of a completion's prompt. */
  eosToken?: string | undefined;
  /**
   * Jinja expression for the earlier turns, which follow system messages: a list of {user, bot},
   * {role, content} or [user, bot].
   */
  history?: string | undefined;
}

export interface JobPromptMessages {
  /** The speaker. */
  role: "system" | "user" | "assistant";
  /** Jinja template. */
  content: string;
}

/** Options of the type, by Axolotl's names. */
export interface JobPromptTypeOptions {
  /** completion: field of the text; default text. */
  field?: string | undefined;
  /** Field of the list of messages; default messages or conversations, by the type. */
  field_messages?: string | undefined;
  /** chat_template: field of a system message that the list lacks; default system. */
  field_system?: string | undefined;
  /** chat_template: keys of a message's role and content; default role and content. */
  message_property_mappings?: JobDatasetMessagePropertyMappings | undefined;
  /** Older name of the mapping of role. */
  message_field_role?: string | undefined;
  /** Older name of the mapping of content. */
  message_field_content?: string | undefined;
  /** chat_template: for user, assistant and system, the names in the data. */
  roles?: Record<string, string[]> | undefined;
  /** chat_template: leave it out. */
  drop_system_message?: boolean | undefined;
  /** sharegpt: name of the user's role; default human. */
  field_human?: string | undefined;
  /** sharegpt: name of the model's role; default gpt. */
  field_model?: string | undefined;
  /** sharegpt: send text of this form instead of messages. */
  conversation?: "vicuna_v1.1" | "chatml" | undefined;
}

/** Answer by a line with slots that only copy. */
export interface JobPromptAnswer {
  /** The answer's form, such as `temperature={temperature}`. */
  line: string;
  /** One entry for each {slot} of the line. */
  slots: Record<string, JobPromptAnswerSlots>;
  /** Drop the `key=` part of a slot that copied nothing. Default: `false`. */
  omitEmptySlots?: boolean | undefined;
  /** Drop the elements of a forEach in which no slot copied anything. Default: `false`. */
  omitEmptyElements?: boolean | undefined;
  /**
   * Joins a forEach's answers into one text, a line each. {text} is the answer, {n} the number of
   * the element; after `list | sentences` the number of the sentence's text.
   */
  join?: string | undefined;
}

export interface JobPromptAnswerSlots {
  /** Jinja expression for the text whose words may be copied, such as `item`. Default: `"item"`. */
  copyFrom?: string | undefined;
  /** Text of the slot when nothing is copied. Default: `"none"`. */
  orElse?: string | undefined;
  /** Most consecutive words that a slot may copy. Default: `8`. */
  maxWords?: number | undefined;
  /** Regular expression (flags iu) that the whole copied text must match. */
  pattern?: string | undefined;
}

export interface JobGeneration {
  /**
   * Most tokens of one answer; default: 1,024 with llama and openvino, the server's own, else 256.
   */
  maxNewTokens?: number | undefined;
  /** Most tokens of prompt and answer, for maxNewTokens. */
  maxLength?: number | undefined;
  /** 0 = the likeliest token each time. Default: `0`. */
  temperature?: number | undefined;
  /** Share of probability to sample from. Default: `1`. */
  topP?: number | undefined;
  /** Likeliest tokens to sample from; 0 = all. Default: `0`. */
  topK?: number | undefined;
  /** Least probability relative to the likeliest. Default: `0`. */
  minP?: number | undefined;
  /** false = temperature 0; true = temperature 1 if none is given. */
  doSample?: boolean | undefined;
  /** Above 1: repeat less. Default: `1`. */
  repetitionPenalty?: number | undefined;
  /** Above 0: new words. Default: `0`. */
  presencePenalty?: number | undefined;
  /** Above 0: fewer repeats. Default: `0`. */
  frequencyPenalty?: number | undefined;
  /** Default: drawn and shown, and never sent to servers. */
  seed?: number | undefined;
  /** Texts that end an answer; default: none. */
  stop?: string | string[] | undefined;
  /** Continue where the model would end the answer. Default: `false`. */
  ignoreEos?: boolean | undefined;
  /** Answers to each prompt; above 1 they come as a list. Default: `1`. */
  numReturnSequences?: number | undefined;
  /** Beams of a beam search; 1 = none. Default: `1`. */
  numBeams?: number | undefined;
  /** For a beam search, above 0: longer answers; default: the model's, or 1. */
  lengthPenalty?: number | undefined;
  /** Whether a beam search ends with as many answers as beams; default: the model's, or false. */
  earlyStopping?: boolean | "never" | undefined;
  /** Likeliest tokens to report for each token, with output.include: [logprobs]. Default: `0`. */
  logprobs?: number | undefined;
  /** With api: completion, begin with the model's begin-of-text token; default: the model's. */
  prependBos?: boolean | undefined;
  /** Accepted without effect: every engine has a prefix cache. */
  useCache?: boolean | undefined;
  /** With api: completion, put the prompt before its continuation. Default: `false`. */
  returnFullText?: boolean | undefined;
}

export interface JobOutput {
  /**
   * Directory; a file such as results.csv; or many, with {stem}, {dir}, {index}, {id}. Default:
   * `"out"`.
   */
  path?: string | undefined;
  /** Column that gets the answer. Default: `"answer"`. */
  field?: string | undefined;
  /** Facts of each answer to keep in a second column, named FIELD + Metadata. Default: `[]`. */
  include?:
    | ("usage" | "finishReason" | "seconds" | "attempts" | "logprobs" | "spans")[]
    | undefined;
  /**
   * Default: by the extension of path, else jsonl; `openai-batch`: responses of the OpenAI Batch
   * API, including failed rows.
   */
  format?: "jsonl" | "json" | "csv" | "tsv" | "parquet" | "openai-batch" | undefined;
  /**
   * For whole text files; default: by the extension of path, else none. For Parquet, within the
   * file: snappy (default), gzip, zstd, none.
   */
  compression?: "none" | "gzip" | "zstd" | "brotli" | "snappy" | undefined;
  /** A file for each input file, with its name: part_0.jsonl gives PATH/part_0.jsonl. */
  perInputFile?: boolean | undefined;
  /** Strip white space from both ends of each text answer. */
  stripWhitespace?: boolean | undefined;
  /** With `openai-batch`: the file for failed rows, instead of the results. */
  errorFile?: string | undefined;
  /** With `openai-batch`: the model's name in the responses; default: model.name. */
  modelName?: string | undefined;
}

/** How many workers, and what each needs. Default: `{}`. */
export interface JobWorkers {
  /** Number of worker processes; default: from cores, GPUs and engine. */
  max?: number | undefined;
  /** For `backend: ray`: workers that must find room on the cluster; default 1. */
  min?: number | undefined;
  /** Cores that a worker needs. */
  cpu?: number | undefined;
  /** Memory that a worker needs, such as 120G. */
  memory?: string | undefined;
  /** A worker that is silent for this long is ended; default 60000. */
  maxSilenceMs?: number | undefined;
  /** GPUs for each worker, such as l40s:2; default: one of any kind. */
  gpu?: string | undefined;
}

/** How often a request is tried. Default: `{}`. */
export interface JobRetries {
  /** Tries of one request, including the first. Default: `3`. */
  maxAttempts?: number | undefined;
}

/** How often a task is tried. Default: `{}`. */
export interface JobTasks {
  /**
   * Extra tries of a task that failed or whose worker died, without progress in between. Default:
   * `3`.
   */
  maxRetries?: number | undefined;
}

/** Limits of the run's cost over all calls: it stops there, and continues once they are raised. */
export interface JobBudget {
  /** Tokens, of prompts and of answers together. */
  tokens?: number | undefined;
  /** US dollars, by `prices`. */
  usd?: number | undefined;
  /** Minutes of work, of all calls together. */
  minutes?: number | undefined;
}

/** Prices of tokens, for estimate, budget and bill. */
export interface JobPrices {
  /** US dollars for a million tokens of prompts. */
  promptUsdPerMillion: number;
  /** The same for cached ones; default: the same price. */
  cachedPromptUsdPerMillion?: number | undefined;
  /** US dollars for a million tokens of answers. */
  completionUsdPerMillion: number;
  /** With model.via batch: the share of these prices that batches cost; default 0.5. */
  batchShare?: number | undefined;
}

/** Settings of `backend: ray`. */
export interface JobRay {
  /**
   * Head, such as head:6379, or its dashboard: http://head:8265; default: RAY_ADDRESS, else here.
   */
  address?: string | undefined;
  /** A Python with the package `ray`; default: python3. */
  python?: string | undefined;
  /** Whether workers spread over nodes or fill one after another; default: SPREAD. */
  strategy?: "SPREAD" | "PACK" | undefined;
  /** Ray's name of a kind of GPU, such as A100. */
  acceleratorType?: string | undefined;
  /** More resources that a worker books, by the cluster's own names. */
  resources?: Record<string, number> | undefined;
  /** Labels that a node must have, such as market-type: spot. */
  labels?: Record<string, string> | undefined;
  /** Ray's runtime environment of workers, such as pip packages. */
  runtimeEnv?: Record<string, Json> | undefined;
  /**
   * How nodes get Sluice: `installed` as sluice-ray, or sent; default: sent where it is missing.
   */
  software?: "auto" | "send" | "installed" | undefined;
  /** All nodes mount the local folders of input and output, at the same paths. */
  shared?: boolean | undefined;
  /** A node that does not answer for this long is given up; default 3000. */
  maxSilenceMs?: number | undefined;
  /** How long fewer than workers.min may have room on the cluster; default 900000. */
  maxRoomWaitMs?: number | undefined;
}

/** Settings of `backend: slurm`. */
export interface JobSlurm {
  /** Partition of the workers; default: that of the cluster. */
  partition?: string | undefined;
  /** Account that pays. */
  account?: string | undefined;
  /** Quality of service. */
  qos?: string | undefined;
  /** Features that nodes must have, such as `a100&nvlink`. */
  constraint?: string | undefined;
  /** Longest time of a worker: minutes, `1:30:00`, or `2-12` for days and hours. */
  timeLimit?: number | string | undefined;
  /** Files of logs, in the notation of sbatch; default: in the run directory. */
  output?: string | undefined;
  /** Shell lines before a worker, as `module load cuda`. */
  setup?: string | undefined;
  /** How nodes start Sluice, as words; default: this Node and this package, by their paths. */
  command?: string[] | undefined;
  /** More options of sbatch, such as `--reservation=team`. */
  extra?: string[] | undefined;
  /** All nodes see the folders of input and output, even if they look like local disks. */
  shared?: boolean | undefined;
}

/** Settings of `backend: kubernetes`. */
export interface JobKubernetes {
  /** Container image with Node.js and Sluice. */
  image: string;
  /** How the image starts Sluice, as words; default: sluice. */
  command?: string[] | undefined;
  /** Shell lines before a worker. */
  setup?: string | undefined;
  /** Default: that of kubectl. */
  namespace?: string | undefined;
  /** Kueue's queue that admits the workers. */
  queue?: string | undefined;
  /** Name of the pods' PriorityClass. */
  priorityClass?: string | undefined;
  /** Name of the pods' ServiceAccount. */
  serviceAccount?: string | undefined;
  /** Number of the user of workers, without privileges; default: that of the image. */
  user?: number | undefined;
  /** Secrets that open the image's registry. */
  imagePullSecrets?: string[] | undefined;
  /** Labels that a node must have. */
  nodeSelector?: Record<string, string> | undefined;
  /** Taints of nodes that workers bear. */
  tolerations?: JobKubernetesTolerations[] | undefined;
  /** Name of GPUs on nodes; default: nvidia.com/gpu. */
  gpuResource?: string | undefined;
  /** What workers mount. */
  volumes?: JobKubernetesVolumes[] | undefined;
  /** Variables of workers: texts, or `{secret: NAME, key: KEY}`. */
  env?: Record<string, string | JobKubernetesEnv | JobKubernetesEnv2> | undefined;
  /** Secrets and ConfigMaps whose keys become variables of workers. */
  envFrom?: (JobKubernetesEnvFrom | JobKubernetesEnvFrom2)[] | undefined;
  /** Starts of a worker after its own failures; default 6. Lost nodes do not count. */
  retries?: number | undefined;
  /** Time of a worker that must leave; default 60. */
  gracePeriodSeconds?: number | undefined;
  /** How long Kubernetes keeps ended workers and their logs; default 86400. */
  keepSeconds?: number | undefined;
}

export interface JobKubernetesTolerations {
  /** Key of the taint; default: any. */
  key?: string | undefined;
  /** Default: Equal. */
  operator?: "Equal" | "Exists" | undefined;
  /** Value of the taint. */
  value?: string | undefined;
  /** Default: any. */
  effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute" | undefined;
}

export interface JobKubernetesVolumes {
  /** Where workers see it. */
  path: string;
  /** A PersistentVolumeClaim. */
  claim?: string | undefined;
  /** A Secret, as files. */
  secret?: string | undefined;
  /** A ConfigMap, as files. */
  configMap?: string | undefined;
  /** A folder of the node. */
  hostPath?: string | undefined;
  /** A folder of the pod, of this size, as 20Gi. */
  emptyDir?: string | undefined;
  /** Only this folder of the volume. */
  subPath?: string | undefined;
  /** Workers do not write there. */
  readOnly?: boolean | undefined;
}

export interface JobKubernetesEnv {
  /** A Secret. */
  secret: string;
  /** Its key. */
  key: string;
}

export interface JobKubernetesEnv2 {
  /** A ConfigMap. */
  configMap: string;
  /** Its key. */
  key: string;
}

export interface JobKubernetesEnvFrom {
  /** A Secret. */
  secret: string;
}

export interface JobKubernetesEnvFrom2 {
  /** A ConfigMap. */
  configMap: string;
}

/** Settings of `backend: sky`. */
export interface JobSky {
  /** Machines of workers; cores and memory are workers.cpu and workers.memory. */
  resources?: JobSkyResources | undefined;
  /**
   * Measured tokens a second of a worker by its kind of GPU: offers are tried by their price a
   * token.
   */
  tokensPerSecond?: Record<string, number> | undefined;
  /** Whether Sluice is sent to machines or is in their image; default: send. */
  software?: "send" | "installed" | undefined;
  /** How machines start an installed Sluice, as words; default: sluice. */
  command?: string[] | undefined;
  /** Shell lines that prepare a machine once. */
  setup?: string | undefined;
  /** Places of a machine, and what is copied or mounted there, such as s3://bucket/models. */
  fileMounts?: Record<string, string> | undefined;
  /** Variables of workers. */
  envs?: Record<string, string> | undefined;
  /** Variables of the caller that workers get; their values are in no file. */
  secrets?: string[] | undefined;
  /** SkyPilot's strategy after a lost machine. */
  recovery?: string | undefined;
  /** Starts of a worker after its own failures; default 3. Lost machines do not count. */
  retries?: number | undefined;
}

/** Machines of workers; cores and memory are workers.cpu and workers.memory. */
export interface JobSkyResources {
  /** GPUs of a worker: `L4:1`, or several kinds of which any will do. */
  accelerators?: string | string[] | undefined;
  /** Alternatives, of which the cheapest is taken. */
  anyOf?: JobSkyResourcesAnyOf[] | undefined;
  /** Machines that may be taken away, for less. */
  useSpot?: boolean | undefined;
  /** Cloud, region and zone, such as `aws/us-east-1`. */
  infra?: string | undefined;
  /** A kind of machine. */
  instanceType?: string | undefined;
  /** Image of the machine, such as `docker:registry/image:1`. */
  imageId?: string | undefined;
  /** Size of its disk. */
  diskSizeGb?: number | undefined;
}

export interface JobSkyResourcesAnyOf {
  /** One kind of GPU, such as `L4:1`. */
  accelerators?: string | undefined;
  /** Machines that may be taken away, for less. */
  useSpot?: boolean | undefined;
  /** Cloud, region and zone, such as `aws/us-east-1`. */
  infra?: string | undefined;
  /** A kind of machine. */
  instanceType?: string | undefined;
}

/** Settings of `backend: code-engine`. */
export interface JobCodeEngine {
  /** Container image with Node.js and Sluice. */
  image: string;
  /** Secret that opens the image's registry. */
  registrySecret?: string | undefined;
  /** How the image starts Sluice, as words; default: sluice. */
  command?: string[] | undefined;
  /** Data store in which the fleet keeps the state of its tasks. */
  stateStore: string;
  /** Subnet pool of the workers. */
  subnetPool: string;
  /** Machine, such as gx3-24x120x1l40s; default: from workers.gpu, cpu and memory. */
  workerProfile?: string | undefined;
  /** Places of workers, and the data stores that they show, such as my-store:/prefix. */
  mounts?: Record<string, string> | undefined;
  /** Variables of workers. */
  envs?: Record<string, string> | undefined;
  /** Secrets whose keys become variables of workers. */
  envFrom?: string[] | undefined;
  /** Starts of a worker after a failure; default 3. */
  retries?: number | undefined;
  /** Longest time of a worker. */
  maxSeconds?: number | undefined;
}
