import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { JobFile } from "../job/job-file.ts";
import type { JobSpec } from "../job/schema.ts";
import { namesBelow } from "../job/schema-tree.ts";
import { modelFromName } from "../job/value-text.ts";

/** Keys of Axolotl's config and the matching keys of a job. */
const translated: Readonly<Record<string, readonly string[]>> = {
  base_model: ["model", "name"],
  datasets: ["dataset"],
  generation_config: ["generation"],
  dataset_prepared_path: ["preparedDir"],
  output_dir: ["output", "path"],
  seed: ["generation", "seed"],
  lora_model_dir: ["model", "lora"],
};

/** Keys of an entry of `datasets` that only training needs. */
const trainingKeysOfDatasets: readonly string[] = [
  "message_field_training",
  "message_field_training_detail",
  "preprocess_shards",
  "revision",
  "roles_to_train",
  "train_on_eos",
  "train_on_eot",
  "train_on_inputs",
  "trust_remote_code",
];

/** Keys that change how messages become a prompt. */
const templateKeys: readonly string[] = [
  "chat_template",
  "chat_template_jinja",
  "default_system_message",
];

export interface TranslatedConfig {
  file: JobFile;
  /** Notices for the user: keys that are accepted without effect. */
  notices: string[];
}

/**
 * Translates a config of Axolotl into a job file. Sluice's own keys stay unchanged; one notice
 * names the keys that only training needs.
 *
 * @throws SluiceError `JOB_INVALID` for a key that is given under both names, `UNSUPPORTED` for a
 *   key that would change answers and is not implemented.
 */
export function translateConfig({ value, origin, problems }: JobFile): TranslatedConfig {
  const given = withoutNulls(value);
  refuseTwice(given, origin.file);
  refuseTemplates(given, origin.file);
  const ours = namesBelow([]);
  const job: JsonObject = {};
  const ignored: string[] = [];
  for (const [key, inner] of Object.entries(given)) {
    if (key in translated || key === "base_model_config" || key === "special_tokens") continue;
    if (ours.includes(key)) job[key] = inner;
    else ignored.push(key);
  }
  addModel(job, given, origin.file);
  addDatasets(job, given, ignored);
  if (given.generation_config !== undefined) job.generation = given.generation_config;
  if (given.seed !== undefined) addSeed(job, given.seed);
  if (given.dataset_prepared_path !== undefined) job.preparedDir = given.dataset_prepared_path;
  if (given.output_dir !== undefined) job.output = { path: given.output_dir };
  const lineOf = (path: readonly string[]) => origin.lineOf(path) ?? origin.lineOf(theirs(path));
  return {
    file: { value: job, origin: { ...origin, lineOf }, problems },
    notices: noticesOf(given, ignored),
  };
}

function withoutNulls(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== null));
}

function refuseTwice(given: JsonObject, file: string): void {
  for (const [key, [own = ""]] of Object.entries(translated)) {
    const isPart = ["lora_model_dir", "seed"].includes(key);
    if (isPart || given[key] === undefined || given[own] === undefined) continue;
    throw new SluiceError("JOB_INVALID", `${key} and ${own} say the same: give one of them`, {
      file,
      field: key,
    });
  }
}

function refuseTemplates(given: JsonObject, file: string): void {
  const isOfMessages = [given.datasets ?? []].flat().some(makesMessages);
  const { chat_template: template, ...others } = given;
  const isDefault = template === "tokenizer_default";
  const key = templateKeys.find((name) => (isDefault ? others : given)[name] !== undefined);
  if (!isOfMessages || key === undefined) return;
  throw new SluiceError("UNSUPPORTED", "conversations go through the model's own chat template", {
    file,
    field: key,
    hint: `leave ${key} out${key === "chat_template" ? ", or set it to tokenizer_default" : ""}`,
  });
}

/** True for a dataset whose prompts use the model's chat template. */
function makesMessages(entry: Json): boolean {
  if (!isJsonObject(entry)) return false;
  const { type, conversation } = entry;
  if (type === "chat_template" || type === "messages") return true;
  return /^sharegpt/.test(String(type)) && conversation == null;
}

function addModel(job: JsonObject, given: JsonObject, file: string): void {
  const { base_model: name, lora_model_dir: lora } = given;
  if (typeof name === "string") job.model = modelFromName(name);
  if (lora === undefined) return;
  const refusal = { file, field: "lora_model_dir" };
  if (!String(lora).endsWith(".gguf")) {
    throw new SluiceError("UNSUPPORTED", "adapters are read from GGUF files", {
      ...refusal,
      hint: "name a .gguf file, or leave it out and merge the adapter into the model",
    });
  }
  // The command line may name the model.
  const { model = { engine: "llama" } } = job;
  // The schema says how a model is written.
  if (!isJsonObject(model)) return;
  if (model.lora !== undefined) {
    const problem = "lora_model_dir and model.lora say the same: give one of them";
    throw new SluiceError("JOB_INVALID", problem, refusal);
  }
  job.model = { ...model, lora: [lora] };
}

function addDatasets(job: JsonObject, given: JsonObject, ignored: string[]): void {
  if (given.datasets === undefined) return;
  const { special_tokens: tokens } = given;
  const eosToken = isJsonObject(tokens) ? tokens.eos_token : undefined;
  const dropped = new Set<string>();
  job.dataset = [given.datasets].flat().map((entry) => {
    if (!isJsonObject(entry)) return entry;
    const kept = Object.entries(withoutNulls(entry)).filter(([key]) => {
      const isOfTraining = trainingKeysOfDatasets.includes(key);
      if (isOfTraining) dropped.add(`datasets.${key}`);
      const isDefault = key === "chat_template" && entry[key] === "tokenizer_default";
      return !isOfTraining && !isDefault;
    });
    const hasEos = typeof eosToken === "string" && !makesMessages(entry);
    const read: JsonObject = hasEos ? { eosToken } : {};
    return Object.assign(read, Object.fromEntries(kept));
  });
  ignored.push(...dropped);
}

function addSeed(job: JsonObject, seed: Json): void {
  const { generation = {} } = job;
  if (typeof generation === "string") job.generation = `${generation},seed=${String(seed)}`;
  else job.generation = { seed, ...(generation as JsonObject) };
}

/** The path in Axolotl's config for a path in the job. */
function theirs(path: readonly string[]): readonly string[] {
  const [key] =
    Object.entries(translated).find(([, own]) => own.every((name, at) => path[at] === name)) ?? [];
  if (key === undefined) return path;
  return [key, ...path.slice(translated[key]!.length)];
}

function noticesOf(given: JsonObject, ignored: readonly string[]): string[] {
  const notices: string[] = [];
  const { base_model: model, base_model_config: config } = given;
  if (config !== undefined && config !== model) notices.push(configNotice(String(config)));
  if (ignored.length > 0) notices.push(`not read, for training only: ${ignored.join(", ")}`);
  return notices;
}

/** Why `base_model_config` has no effect. */
export function configNotice(config: string): string {
  return `base_model_config ${config} is not read: a GGUF file holds its own configuration`;
}

const known: readonly string[] = ["gpu_ids", "num_processes", "use_cpu", "num_machines"];

/** What a file of `accelerate config` says of where a job runs. */
interface AccelerateConfig {
  /** GPUs by number; undefined = all. */
  devices: number[] | undefined;
  workers: number | undefined;
  onlyCpu: boolean;
  notices: string[];
}

/**
 * Reads a file of `accelerate config`: `gpu_ids`, `num_processes` and `use_cpu`.
 *
 * @param file its path, for messages.
 * @throws SluiceError `JOB_INVALID` for invalid values, and for GPUs beside `use_cpu`;
 *   `UNSUPPORTED` for several machines.
 */
export function readAccelerateConfig(config: JsonObject, file: string): AccelerateConfig {
  const { num_processes: workers, use_cpu: onlyCpu = false, num_machines: machines = 1 } = config;
  const invalid = (field: string, problem: string) =>
    new SluiceError("JOB_INVALID", problem, { file, field });
  if (typeof onlyCpu !== "boolean") throw invalid("use_cpu", "must be true or false");
  const isCount = typeof workers === "number" && Number.isInteger(workers) && workers > 0;
  if (workers !== undefined && workers !== null && !isCount) {
    throw invalid("num_processes", "must be a whole number, at least 1");
  }
  const devices = devicesOf(config.gpu_ids ?? "all");
  if (devices?.some((id) => !Number.isInteger(id) || id < 0)) {
    throw invalid("gpu_ids", "must be all, or numbers of GPUs as 0,1");
  }
  if (devices !== undefined && onlyCpu) throw invalid("gpu_ids", "stands beside use_cpu: true");
  if (machines !== null && Number(machines) > 1) {
    throw new SluiceError("UNSUPPORTED", "one call runs on one machine", {
      file,
      field: "num_machines",
      hint: "plan the run, and start sluice worker on each machine: see docs/worker-contract.md",
    });
  }
  const others = Object.keys(config).filter((key) => !known.includes(key));
  return {
    devices,
    workers: isCount ? workers : undefined,
    onlyCpu,
    notices: others.length === 0 ? [] : [`not read of ${file}: ${others.join(", ")}`],
  };
}

function devicesOf(ids: unknown): number[] | undefined {
  if (ids === "all") return undefined;
  const list = Array.isArray(ids) ? ids : String(ids).split(",");
  return list.map((id) => (String(id).trim() === "" ? Number.NaN : Number(id)));
}

/** The job with the file's values for what the job leaves open. */
export function withAccelerate(job: JobSpec, config: AccelerateConfig): JobSpec {
  const { devices, onlyCpu } = config;
  const { model, workers } = job;
  const max = workers.max ?? config.workers;
  const placed = { ...job, workers: { ...workers, ...(max !== undefined && { max }) } };
  if (model.engine !== "llama") return placed;
  const gpuLayers = model.gpuLayers ?? (onlyCpu ? 0 : undefined);
  return {
    ...placed,
    model: {
      ...model,
      ...(devices && { devices: model.devices ?? devices }),
      ...(gpuLayers !== undefined && { gpuLayers }),
    },
  };
}
