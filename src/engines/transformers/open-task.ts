import { availableParallelism } from "node:os";
import { basename, dirname, join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { tensorMaker } from "./decode/tensors.ts";
import type { OnnxModel } from "./model-place.ts";
import type { TransformersModelOptions } from "./options.ts";
import { CausalTask } from "./tasks/causal-task.ts";
import { ClassificationTask } from "./tasks/classification-task.ts";
import { EmbeddingTask } from "./tasks/embedding-task.ts";
import { SequenceTask } from "./tasks/sequence-task.ts";
import { SpeechTask } from "./tasks/speech-task.ts";
import type { Task } from "./tasks/task.ts";
import { ZeroShotTask } from "./tasks/zero-shot-task.ts";
import type { LoadOptions, TransformersJs } from "./transformers-js.ts";

/** The model's settings for a host. */
export interface TaskPlace {
  model: OnnxModel;
  /** The folder for files of the hub. */
  cacheDirectory: string;
  /** Address of the hub, with a slash at its end. */
  hubAddress: string;
  /** Whether missing files may be fetched. */
  isOnline: boolean;
  /** Rejects with an error of the package that no promise of a load ends with. */
  stray: Promise<never>;
}

/**
 * Loads a model for its task.
 *
 * @throws SluiceError `TASK_UNUSABLE`, `MODEL_UNREADABLE`, and of a model of the hub
 *   `MODEL_UNKNOWN`, `MODEL_MISSING`, `MODEL_FORBIDDEN`, `MODEL_DOWNLOAD_FAILED`.
 */
export async function openTask(
  library: TransformersJs,
  options: TransformersModelOptions,
  place: TaskPlace,
): Promise<Task<unknown>> {
  const name = setEnvironment(library, place);
  const load = loadOptions(options, place.model);
  try {
    // If it cannot have external weights, the package's own promise stays pending.
    return await Promise.race([loadTask(library, options, name, load), place.stray]);
  } catch (thrown) {
    if (thrown instanceof SluiceError) throw thrown;
    throw loadError(thrown as Error, options, place);
  }
}

/**
 * Sets the places of models.
 * @returns the package's name for this one.
 */
function setEnvironment(
  { env }: TransformersJs,
  { model, cacheDirectory, hubAddress, isOnline }: TaskPlace,
): string {
  env.cacheDir = cacheDirectory;
  env.remoteHost = hubAddress;
  env.allowLocalModels = true;
  env.allowRemoteModels = model.kind === "hub" && isOnline;
  if (model.kind === "hub") {
    // The cache is read in any case; local folders would ignore the revision.
    env.localModelPath = join(cacheDirectory, "none");
    return model.repository;
  }
  env.localModelPath = dirname(model.path);
  return basename(model.path);
}

function loadOptions(
  { dtype, device, threads = availableParallelism() }: TransformersModelOptions,
  model: OnnxModel,
): LoadOptions {
  return {
    dtype,
    device,
    ...(model.kind === "hub" && { revision: model.revision }),
    session_options: { intraOpNumThreads: threads, interOpNumThreads: 1 },
  };
}

async function loadTask(
  library: TransformersJs,
  options: TransformersModelOptions,
  name: string,
  load: LoadOptions,
): Promise<Task<unknown>> {
  const { task } = options;
  if (task === "automatic-speech-recognition") {
    return new SpeechTask(await library.pipeline(task, name, load), options) as Task<unknown>;
  }
  // If the repository is missing, the error about the model is clearer.
  const model = await modelClass(library, task).from_pretrained(name, load);
  const revision = load.revision ?? "main";
  const tokenizer = await library.AutoTokenizer.from_pretrained(name, { revision });
  const parts = { model, tokenizer, makeTensor: tensorMaker(library) };
  if (task === "feature-extraction" && model.config.is_encoder_decoder) {
    const hint = "take a model that is an encoder alone, as sentence transformers are";
    const detail = `${model.config.model_type} has an encoder and a decoder`;
    throw new SluiceError("TASK_UNUSABLE", detail, { hint });
  }
  const Implementation = implementations[task];
  return new Implementation(parts, options) as Task<unknown>;
}

const implementations = {
  translation: SequenceTask,
  summarization: SequenceTask,
  "text-generation": CausalTask,
  "feature-extraction": EmbeddingTask,
  "text-classification": ClassificationTask,
  "zero-shot-classification": ZeroShotTask,
};

function modelClass(library: TransformersJs, task: keyof typeof implementations) {
  switch (task) {
    case "translation":
    case "summarization":
      return library.AutoModelForSeq2SeqLM;
    case "text-generation":
      return library.AutoModelForCausalLM;
    case "feature-extraction":
      return library.AutoModel;
    case "text-classification":
    case "zero-shot-classification":
      return library.AutoModelForSequenceClassification;
  }
}

/** ONNX Runtime's message about a missing device. */
const deviceFailure = /ExecutionProvider|providers\/|unsupported device|no available backend/i;

/** The package's message about unavailable files, as a named error. */
function loadError(
  error: Error,
  { device, dtype }: TransformersModelOptions,
  { model, isOnline }: TaskPlace,
): SluiceError {
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  const said = `${error.message}${cause}`.split("\n")[0]!.slice(0, 400);
  const detail = /tokenizer_class/.test(said) ? "it has no tokenizer_config.json" : said;
  const isWrongTask = /unsupported model type/i.test(detail);
  if (isWrongTask) return new SluiceError("TASK_UNUSABLE", detail, { cause: error });
  if (device !== "cpu" && deviceFailure.test(detail)) {
    const hint = "set model.device: cpu; docs/engine-transformers.md says what cuda needs";
    const problem = `model.device: ${device}: ${detail}`;
    return new SluiceError("ENGINE_START_FAILED", problem, { cause: error, hint });
  }
  if (model.kind === "folder") {
    const hint = /\.onnx"/.test(detail)
      ? `set model.dtype to one whose files onnx/ has; ${dtype} is not among them`
      : "export it with Optimum: config.json, tokenizer.json and onnx/*.onnx";
    return new SluiceError("MODEL_UNREADABLE", `${model.path}: ${detail}`, { cause: error, hint });
  }
  const { repository } = model;
  if (!isOnline) {
    const hint = "unset HF_HUB_OFFLINE, or name a folder by path";
    return new SluiceError("MODEL_MISSING", repository, { cause: error, hint });
  }
  if (/(unauthorized|forbidden) access/i.test(detail)) {
    return new SluiceError("MODEL_FORBIDDEN", `${repository}: ${detail}`, { cause: error });
  }
  if (/could not locate file/i.test(detail)) {
    const hint = "look at the repository: it has to hold onnx/ with this task's graphs";
    return new SluiceError("MODEL_UNKNOWN", `${repository}: ${detail}`, { cause: error, hint });
  }
  return new SluiceError("MODEL_DOWNLOAD_FAILED", `${repository}: ${detail}`, { cause: error });
}
