import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { ContextShape } from "../weights/context-shape.ts";
import { type BatchShare, gapsToFill, lonelySequences } from "./batch-plan.ts";
import { EmbeddingPool } from "./embedding-pool.ts";
import {
  type AdapterFile,
  loadLibrary,
  type NativeSampler,
  type NodeLlamaCpp,
  type PackageContext,
  type PackageLlama,
  type PackageModel,
  type TokenValues,
  type WantedLogits,
} from "./node-llama-cpp.ts";

/** Tokens of one sequence for one pass. */
export interface BatchItem {
  sequence: number;
  /** Position of the first token in the sequence. */
  start: number;
  tokens: readonly number[];
  /** Whether the last token's output is needed. */
  wantsOutput: boolean;
}

/** A loaded model with one context of parallel sequences. */
export interface LoadedLlama {
  /** The context as it was made. */
  readonly shape: ContextShape;
  readonly gpu: string | false;
  readonly gpuLayers: number;
  /** From this number of tokens of one sequence in a batch on, another kernel computes them. */
  readonly blockTokens: number;
  readonly model: PackageModel;
  /** Computes the items; returns the index of each one's output, undefined if it is not needed. */
  decode(items: readonly BatchItem[]): Promise<(number | undefined)[]>;
  sample(output: number, sampler: NativeSampler): Promise<number>;
  /** Natural logarithms of the probabilities of `token` and of the `top` likeliest tokens. */
  logProbabilities(output: number, token: number, top: number): Promise<LogProbabilities>;
  createSampler(): NativeSampler;
  /** The vector of a text. */
  embed(tokens: readonly number[]): Promise<number[]>;
  /** Removes everything after `keep` tokens of a sequence; false if all had to be removed. */
  truncate(sequence: number, keep: number): boolean;
  /** Copies the state of `source` to `target`. */
  copy(source: number, target: number): Promise<void>;
  dispose(): Promise<void>;
}

/** The model's own values, before temperature and all other settings. */
export interface LogProbabilities {
  chosen: number;
  /** Likeliest first. */
  top: readonly { token: number; logProbability: number }[];
}

/** How a model is loaded; every value is explicit. */
export interface LoadOptions {
  /** Address of node-llama-cpp's main module, or its path. */
  modulePath: string;
  modelPath: string;
  /** Layers on the GPU; default: as many as fit. 0: no GPU library is loaded. */
  gpuLayers?: number;
  /** LoRA adapters, GGUF files. */
  adapters: readonly LoraAdapter[];
  /** On a CPU, whether a token is rounded as if it had neighbours. */
  isExact: boolean;
  /** Contexts that make vectors side by side, which share the threads; default 1. */
  embeddingContexts?: number | undefined;
  /** Chooses the context once model and machine are known. */
  shape: (loaded: { model: PackageModel; gpu: string | false; mathCores: number }) => ContextShape;
  /** Receives the library's errors at once: after an abort nobody can ask for them. */
  onErrorLine?: (line: string) => void;
}

/** Rows of an attention tile on a CPU: `GGML_FA_TILE_Q` of llama.cpp. */
const cpuBlockTokens = 64;

/** What helps where the kernels of a GPU cannot run. */
export const gpuHint =
  "run sluice engine add llama --hardware vulkan, or take a newer driver: docs/engines.md#gpus; " +
  "model.gpuLayers 0 computes on the CPU";
/** What helps where a GPU is full. */
export const fullGpuHint =
  "lower model.contextTokens, or free the GPU's memory: nvidia-smi shows which programs hold it";

/** A LoRA adapter and its scale. */
export interface LoraAdapter {
  path: string;
  scale: number;
}

/**
 * Loads the library, the model and a context.
 *
 * @throws SluiceError `ENGINE_START_FAILED` if the library does not run here, `MODEL_CORRUPT` if it
 *   rejects the file, `ADAPTER_UNUSABLE` if it rejects an adapter.
 */
export async function loadLlama(options: LoadOptions): Promise<LoadedLlama> {
  const lines: string[] = [];
  const library = await loadLibrary(options.modulePath);
  const llama = await library
    .getLlama({
      // With a library for GPUs, even a model without layers there sends large products to one.
      gpu: options.gpuLayers === 0 ? false : "auto",
      build: "never",
      // No splitting of threads among contexts: there is one.
      maxThreads: 0,
      logLevel: "warn",
      progressLogs: false,
      logger: (level, message) => {
        if (level === "error" || level === "fatal") options.onErrorLine?.(message.trim());
        lines.push(message.trim());
        if (lines.length > limits.maxHostOutputLines) lines.shift();
      },
    })
    .catch((cause: unknown) => {
      throw new SluiceError("ENGINE_START_FAILED", String(cause), { cause });
    });
  const { modelPath, gpuLayers } = options;
  const asked = gpuLayers === undefined ? { modelPath } : { modelPath, gpuLayers };
  const model = await llama.loadModel(asked).catch(async (cause: unknown) => {
    await llama.dispose();
    const detail = complaint(lines, cause);
    throw new SluiceError("MODEL_CORRUPT", detail, { file: modelPath, cause });
  });
  for (const { path } of options.adapters) {
    await model._getOrLoadLora(path).catch(async (cause: unknown) => {
      await llama.dispose();
      const detail = `${path}: ${complaint(lines, cause)}`;
      throw new SluiceError("ADAPTER_UNUSABLE", detail, { file: path, field: "model.lora", cause });
    });
  }
  const wanted = options.shape({ model, gpu: llama.gpu, mathCores: llama.cpuMathCores });
  const isOnGpu = llama.gpu !== false && model.gpuLayers > 0;
  const { context, shape } = await createContext(library, model, wanted, {
    adapters: options.adapters,
    hint: isOnGpu ? fullGpuHint : "lower model.contextTokens or model.sequences",
  });
  const { adapters, isExact, embeddingContexts = 1 } = options;
  const how = { shape, adapters, isExact, embeddingContexts };
  const loaded = new Loaded(llama, model, context, how);
  if (!loaded.isOnCpu) await tryDecoding(loaded);
  return loaded;
}

/**
 * The library's last lines about a failure, which say more than its error. They arrive late: all of
 * them are there once it is disposed.
 */
function complaint(lines: readonly string[], cause: unknown): string {
  const said = lines.findLast((line) => /error|failed|corrupt|bounds/i.test(line));
  return said ?? (cause instanceof Error ? cause.message : String(cause));
}

/**
 * Computes one token. A GPU for which the library has no kernels is noticed only then: the library
 * ends this process, which is better while the engine opens than with requests in work.
 */
async function tryDecoding(loaded: Loaded): Promise<void> {
  const { bos } = loaded.model.tokens;
  const item = { sequence: 0, start: 0, tokens: [bos ?? 0], wantsOutput: true };
  try {
    await loaded.decode([item]);
  } catch (cause) {
    await loaded.dispose();
    const detail = `the ${loaded.gpu} GPU does not compute: ${cause}`;
    throw new SluiceError("ENGINE_START_FAILED", detail, { cause, hint: gpuHint });
  }
  loaded.truncate(0, 0);
}

/** A context of the requested shape, or with half as many sequences until memory suffices. */
async function createContext(
  library: NodeLlamaCpp,
  model: PackageModel,
  asked: ContextShape,
  { adapters, hint }: { adapters: readonly LoraAdapter[]; hint: string },
): Promise<{ context: PackageContext; shape: ContextShape }> {
  const lora = { adapters: filesOf(adapters) };
  for (let sequences = asked.sequences; ; sequences = Math.ceil(sequences / 2)) {
    const { contextTokens, batchTokens, threads } = asked;
    try {
      const context = await model.createContext({
        sequences,
        contextSize: contextTokens,
        // A single token of each sequence may get another one beside it.
        batchSize: batchTokens + sequences,
        threads,
        // Without the full cache, a sliding-window model forgets the prefix that requests share.
        swaFullCache: true,
        ...(adapters.length > 0 && { lora }),
      });
      return { context, shape: { ...asked, sequences } };
    } catch (cause) {
      if (cause instanceof library.InsufficientMemoryError && sequences > 1) continue;
      const detail = `${sequences} × ${contextTokens} tokens of context: ${cause}`;
      throw new SluiceError("ENGINE_START_FAILED", detail, {
        cause,
        hint,
      });
    }
  }
}

function filesOf(adapters: readonly LoraAdapter[]): AdapterFile[] {
  return adapters.map(({ path, scale }) => ({ filePath: path, scale }));
}

/** How a loaded model was made. */
interface LoadedOptions {
  shape: ContextShape;
  adapters: readonly LoraAdapter[];
  isExact: boolean;
  embeddingContexts: number;
}

class Loaded implements LoadedLlama {
  readonly model: PackageModel;
  readonly shape: ContextShape;
  readonly #llama: PackageLlama;
  readonly #context: PackageContext;
  readonly #isExact: boolean;
  /** Reads the logits unchanged. */
  #plainSampler: NativeSampler | undefined;
  readonly #embedding: EmbeddingPool;

  constructor(
    llama: PackageLlama,
    model: PackageModel,
    context: PackageContext,
    { shape, adapters, isExact, embeddingContexts }: LoadedOptions,
  ) {
    this.shape = shape;
    this.#isExact = isExact;
    this.#embedding = new EmbeddingPool(model, {
      contexts: embeddingContexts,
      contextTokens: shape.contextTokens,
      threads: Math.max(1, Math.floor(shape.threads / embeddingContexts)),
      adapters: filesOf(adapters),
    });
    this.#llama = llama;
    this.model = model;
    this.#context = context;
  }

  get gpu(): string | false {
    return this.#llama.gpu;
  }

  get gpuLayers(): number {
    return this.model.gpuLayers;
  }

  get blockTokens(): number {
    return this.isOnCpu ? cpuBlockTokens : Number.POSITIVE_INFINITY;
  }

  get isOnCpu(): boolean {
    return this.gpu === false || this.gpuLayers === 0;
  }

  async decode(items: readonly BatchItem[]): Promise<(number | undefined)[]> {
    const native = this.#context._ctx;
    const fillers = this.#fillers(items);
    const all = [...items, ...fillers].sort((a, b) => a.sequence - b.sequence);
    const lonely = this.#lonely(all);
    native.initBatch(all.reduce((sum, item) => sum + item.tokens.length, lonely.size));
    const outputs = new Map<number, number | undefined>();
    for (const { sequence, start, tokens, wantsOutput } of all) {
      const wanted = wantsOutput ? [tokens.length - 1] : [];
      const computed = lonely.has(sequence) ? [...tokens, tokens.at(-1)!] : tokens;
      const indexes = native.addToBatch(
        sequence,
        start,
        Uint32Array.from(computed),
        Uint32Array.from(wanted),
      );
      outputs.set(sequence, indexes[0]);
    }
    await native.decodeBatch();
    for (const { sequence, start } of fillers) this.truncate(sequence, start);
    for (const { sequence, start, tokens } of items) {
      if (lonely.has(sequence)) this.truncate(sequence, start + tokens.length);
    }
    return items.map(({ sequence }) => outputs.get(sequence));
  }

  /** Idle sequences that compute a token behind what they hold, and forget it at once. */
  #fillers(items: readonly BatchItem[]): BatchItem[] {
    if (!this.#canForgetTokens) return [];
    return gapsToFill(sharesOf(items), !this.isOnCpu).flatMap((sequence) => {
      const start = this.#context._ctx.getSequenceKvCacheMaxPosition(sequence) + 1;
      if (start >= this.shape.contextTokens) return [];
      return { sequence, start, tokens: [0], wantsOutput: false };
    });
  }

  /**
   * Sequences that compute their last token twice, and forget it once: a single token would be
   * rounded differently from one with neighbours, which can change answers.
   */
  #lonely(items: readonly BatchItem[]): ReadonlySet<number> {
    if (!this.#isExact || !this.isOnCpu || !this.#canForgetTokens) return new Set();
    return new Set(lonelySequences(sharesOf(items)));
  }

  get #canForgetTokens(): boolean {
    const { isRecurrent, isHybrid } = this.model.fileInsights;
    return !isRecurrent && !isHybrid;
  }

  sample(output: number, sampler: NativeSampler): Promise<number> {
    return this.#context._ctx.sampleToken(output, sampler);
  }

  async logProbabilities(output: number, token: number, top: number): Promise<LogProbabilities> {
    this.#plainSampler ??= this.#createPlainSampler();
    // The sampler selects the likeliest one; the sum of all is relative to its logit.
    const wanted: WantedLogits = [[token], false, false, true, top];
    const native = this.#context._ctx;
    const sampled = native.sampleToken(output, this.#plainSampler, false, false, wanted, true);
    const [, , , logits = [], weight = 1] = await sampled;
    return logProbabilitiesOf(logits, weight, token, top);
  }

  #createPlainSampler(): NativeSampler {
    const sampler = this.createSampler();
    sampler.applyConfig({ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0 });
    return sampler;
  }

  createSampler(): NativeSampler {
    return new this.#llama._bindings.AddonSampler(this.model._model);
  }

  embed(tokens: readonly number[]): Promise<number[]> {
    return this.#embedding.embed(tokens);
  }

  truncate(sequence: number, keep: number): boolean {
    const native = this.#context._ctx;
    if (keep > 0 && native.removeTokenCellsFromSequence(sequence, keep, -1)) return true;
    native.disposeSequence(sequence);
    return false;
  }

  async copy(source: number, target: number): Promise<void> {
    await this.#context._ctx.copySequenceStateFromOtherSequence(target, source);
  }

  async dispose(): Promise<void> {
    await this.#embedding.dispose();
    await this.#context.dispose();
    await this.model.dispose();
    await this.#llama.dispose();
  }
}

const sharesOf = (items: readonly BatchItem[]): BatchShare[] =>
  items.map(({ sequence, tokens }) => ({ sequence, tokens: tokens.length }));

function logProbabilitiesOf(
  values: TokenValues,
  weight: number,
  chosen: number,
  top: number,
): LogProbabilities {
  const logits = new Map<number, number>();
  for (let at = 0; at < values.length; at += 2) logits.set(values[at]!, values[at + 1]!);
  const sorted = [...logits].sort(([, a], [, b]) => b - a);
  // ln(exp(x) / sum of exp), with the highest logit subtracted from both for precision.
  const logSum = (sorted[0]?.[1] ?? 0) + Math.log(weight);
  return {
    chosen: (logits.get(chosen) ?? Number.NEGATIVE_INFINITY) - logSum,
    top: sorted.slice(0, top).map(([token, logit]) => ({ token, logProbability: logit - logSum })),
  };
}
