import { pathToFileURL } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";

// The used part of @huggingface/transformers. The package is not a dependency: it is loaded from
// its place of installation, so its types are declared here. Names with `_` are private to it;
// `engines/packages` pins the version.

export type TensorData = Float32Array | Uint16Array | BigInt64Array | Uint8Array;

/** A tensor of ONNX Runtime, row by row. */
export interface RuntimeTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: TensorData;
}

/** A tensor of the package, around one of the runtime. */
export interface LibraryTensor extends RuntimeTensor {
  readonly ort_tensor: RuntimeTensor;
  to(type: "float32"): LibraryTensor;
}

/** A loaded graph. */
export interface Session {
  readonly inputNames: readonly string[];
  run(feeds: Record<string, RuntimeTensor>): Promise<Record<string, RuntimeTensor>>;
}

export type Tensors = Record<string, LibraryTensor>;

/** The inputs of forward passes of all kinds of models. */
export interface ForwardInputs {
  input_ids?: LibraryTensor;
  attention_mask?: LibraryTensor;
  token_type_ids?: LibraryTensor;
  num_logits_to_keep?: LibraryTensor;
  encoder_outputs?: LibraryTensor;
  decoder_input_ids?: LibraryTensor;
  past_key_values?: Tensors;
}

/** The model's own generation settings, overlaid with those of the caller. */
export interface GenerationConfig {
  eos_token_id: number | readonly number[] | null;
  decoder_start_token_id: number | null;
  bos_token_id: number | null;
  length_penalty: number | null;
  early_stopping: boolean | "never" | null;
}

/** Changes logits of the next token in place, or returns others. */
export interface LogitsProcessors {
  readonly processors: readonly unknown[];
  (tokens: readonly bigint[][], logits: LibraryTensor): LibraryTensor;
}

export interface ModelConfig {
  model_type: string;
  is_encoder_decoder?: boolean;
  max_position_embeddings?: number;
  n_positions?: number;
  problem_type?: string | null;
  id2label?: Record<string, string>;
  label2id?: Record<string, number>;
  task_specific_params?: Record<string, { prefix?: string }> | null;
}

export interface Model {
  readonly config: ModelConfig;
  readonly sessions: Record<string, Session>;
  forward(inputs: ForwardInputs): Promise<Tensors>;
  dispose(): Promise<unknown>;
  _prepare_generation_config(own: null, given: Record<string, unknown>): GenerationConfig;
  _get_logits_processor(config: GenerationConfig, promptTokens: number): LogitsProcessors;
}

export interface EncodeOptions {
  text_pair?: string;
  add_special_tokens?: boolean;
}

export interface Encoding {
  input_ids: number[];
  token_type_ids?: number[];
}

export interface Tokenizer {
  readonly pad_token_id?: number;
  readonly eos_token_id?: number;
  readonly model_max_length: number;
  readonly chat_template: unknown;
  /** Codes of the model's languages for translation. */
  readonly language_codes?: readonly string[];
  _encode_plus(text: string, options: EncodeOptions): Encoding;
  decode(tokens: readonly number[], options: { skip_special_tokens: boolean }): string;
  apply_chat_template(
    messages: readonly object[],
    options: { tokenize: false; add_generation_prompt: true },
  ): string;
  _build_translation_inputs?(
    text: string,
    options: { return_tensor: false },
    languages: { src_lang: string; tgt_lang: string; forced_bos_token_id?: number },
  ): Encoding;
}

/** The source and the settings of a model. */
export interface LoadOptions {
  dtype: string;
  device: string;
  revision?: string | undefined;
  session_options: Record<string, unknown>;
}

interface Loads<Loaded> {
  from_pretrained(name: string, options?: Partial<LoadOptions>): Promise<Loaded>;
}

/** Transcribes the samples of one recording. */
export interface SpeechPipeline {
  (samples: Float32Array, options: Record<string, unknown>): Promise<SpeechResult>;
  readonly model: Pick<Model, "config"> & { readonly generation_config: WhisperConfig };
  readonly processor: { feature_extractor: { config: { sampling_rate?: number } } };
  dispose(): Promise<unknown>;
}

/** What of a Whisper's settings tells its languages. */
interface WhisperConfig {
  is_multilingual?: boolean;
  lang_to_id?: Record<string, number>;
}

export interface SpeechResult {
  text: string;
  chunks?: { timestamp: [number, number | null]; text: string }[];
}

export interface TransformersJs {
  readonly env: {
    allowRemoteModels: boolean;
    allowLocalModels: boolean;
    localModelPath: string;
    remoteHost: string;
    cacheDir: string | null;
    logLevel: number;
    fetch: (address: unknown) => Promise<unknown>;
  };
  readonly Tensor: new (type: string, data: TensorData, dims: readonly number[]) => LibraryTensor;
  readonly AutoTokenizer: Loads<Tokenizer>;
  readonly AutoModel: Loads<Model>;
  readonly AutoModelForSequenceClassification: Loads<Model>;
  readonly AutoModelForSeq2SeqLM: Loads<Model>;
  readonly AutoModelForCausalLM: Loads<Model>;
  pipeline(
    task: "automatic-speech-recognition",
    name: string,
    options: Partial<LoadOptions>,
  ): Promise<SpeechPipeline>;
}

/**
 * Loads the package from its place of installation.
 *
 * @param modulePath path of its main module.
 * @throws SluiceError `ENGINE_MISSING`
 */
export async function loadTransformersJs(modulePath: string): Promise<TransformersJs> {
  try {
    return (await import(pathToFileURL(modulePath).href)) as TransformersJs;
  } catch (cause) {
    const detail = `@huggingface/transformers at ${modulePath}: ${cause}`;
    throw new SluiceError("ENGINE_MISSING", detail, { cause });
  }
}
