import { pathToFileURL } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";

// The only file that knows node-llama-cpp. The package is not a dependency: it is loaded from where
// it was installed on demand, so what we use of it is declared here. `_ctx`, `_model` and
// `_bindings` are private to it; the version is pinned by `engines/packages`.

/** A handle of the native library. */
export interface NativeSampler {
  applyConfig(config: SamplerConfig): void;
  dispose(): void;
}

/** How the next token is chosen. */
export interface SamplerConfig {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  seed: number;
  repeatPenalty?: number;
  repeatPenaltyMaxTokens?: number;
  repeatPenaltyTokens?: Uint32Array;
  repeatPenaltyPresencePenalty?: number;
  repeatPenaltyFrequencyPenalty?: number;
  /** Tokens whose logit is raised, and by how much. */
  tokenBiasKeys?: Uint32Array;
  tokenBiasValues?: Float32Array;
}

interface NativeContext {
  initBatch(size: number): void;
  addToBatch(
    sequence: number,
    start: number,
    tokens: Uint32Array,
    logitIndexes: Uint32Array,
  ): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(logitIndex: number, sampler: NativeSampler): Promise<number>;
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean;
  disposeSequence(sequence: number): void;
  copySequenceStateFromOtherSequence(target: number, source: number): Promise<number>;
}

interface PackageContext {
  readonly _ctx: NativeContext;
  dispose(): Promise<void>;
}

export interface PackageModel {
  readonly _model: {
    getTokenString(token: number): string | undefined;
    getTokenAttributes(token: number): number;
  };
  readonly fileInfo: { metadata: GgufMetadata };
  readonly gpuLayers: number;
  readonly size: number;
  readonly trainContextSize: number;
  readonly vocabularyType: string;
  readonly tokens: {
    bos: number | null;
    bosString: string | null;
    eosString: string | null;
    shouldPrependBosToken: boolean;
  };
  tokenize(text: string, specialTokens: boolean, options?: "trimLeadingSpace"): number[];
  isEogToken(token: number): boolean;
  iterateAllTokens(): Iterable<number>;
  createContext(options: {
    sequences: number;
    contextSize: number;
    batchSize: number;
    threads: number;
    swaFullCache: boolean;
  }): Promise<PackageContext>;
  dispose(): Promise<void>;
}

interface PackageLlama {
  readonly gpu: string | false;
  /** Cores that are worth a thread of arithmetic. */
  readonly cpuMathCores: number;
  readonly _bindings: { AddonSampler: new (model: object) => NativeSampler };
  loadModel(options: { modelPath: string }): Promise<PackageModel>;
  dispose(): Promise<void>;
}

interface NodeLlamaCpp {
  getLlama(options: {
    gpu: "auto";
    build: "never";
    maxThreads: number;
    logLevel: "warn";
    logger: (level: string, message: string) => void;
    progressLogs: false;
  }): Promise<PackageLlama>;
  InsufficientMemoryError: new (...args: never[]) => Error;
}

/** What a GGUF file says about itself, as far as it is used. */
export interface GgufMetadata {
  general?: { architecture?: string; name?: string };
  tokenizer?: { chat_template?: string };
  [architecture: string]: unknown;
}

/** Tokens of one sequence that are computed in one pass. */
export interface BatchItem {
  sequence: number;
  /** Position of the first token in the sequence. */
  start: number;
  tokens: readonly number[];
  /** Whether the last token's output is wanted. */
  wantsOutput: boolean;
}

/** A loaded model with one context of parallel sequences. */
export interface LoadedLlama {
  /** The context as it was made. */
  readonly shape: ContextShape;
  readonly gpu: string | false;
  readonly gpuLayers: number;
  readonly model: PackageModel;
  /**
   * Computes the items; gives for each the index of its output, or undefined where none is
   * wanted.
   */
  decode(items: readonly BatchItem[]): Promise<(number | undefined)[]>;
  sample(output: number, sampler: NativeSampler): Promise<number>;
  createSampler(): NativeSampler;
  /** Forgets what follows `keep` tokens of a sequence; false when all had to be forgotten. */
  truncate(sequence: number, keep: number): boolean;
  /** Makes `target` hold what `source` holds. */
  copy(source: number, target: number): Promise<void>;
  dispose(): Promise<void>;
}

/** How a model is loaded; every value explicit. */
export interface LoadOptions {
  /** Address of node-llama-cpp's main module, or its path. */
  modulePath: string;
  modelPath: string;
  /** Decides the context once model and machine are known. */
  shape: (loaded: { model: PackageModel; gpu: string | false; mathCores: number }) => ContextShape;
}

/** Size of a context. */
export interface ContextShape {
  sequences: number;
  /** Tokens of each sequence. */
  contextTokens: number;
  batchTokens: number;
  threads: number;
}

/**
 * Loads the library, the model and a context.
 *
 * @throws SluiceError `ENGINE_START_FAILED` when the library does not run here, `MODEL_CORRUPT`
 *   when it does not take the file.
 */
export async function loadLlama(options: LoadOptions): Promise<LoadedLlama> {
  const lines: string[] = [];
  const library = await loadLibrary(options.modulePath);
  const llama = await library
    .getLlama({
      gpu: "auto",
      build: "never",
      // No splitting of threads among contexts: there is one.
      maxThreads: 0,
      logLevel: "warn",
      progressLogs: false,
      logger: (_level, message) => lines.push(message.trim()),
    })
    .catch((cause: unknown) => {
      throw new SluiceError("ENGINE_START_FAILED", String(cause), { cause });
    });
  const model = await llama.loadModel({ modelPath: options.modelPath }).catch((cause: unknown) => {
    const said = lines.findLast((line) => /error|failed|corrupt|bounds/i.test(line));
    const detail = said ?? (cause instanceof Error ? cause.message : String(cause));
    throw new SluiceError("MODEL_CORRUPT", detail, { file: options.modelPath, cause });
  });
  const asked = options.shape({ model, gpu: llama.gpu, mathCores: llama.cpuMathCores });
  const { context, shape } = await createContext(library, model, asked);
  return new Loaded(llama, model, context, shape);
}

async function loadLibrary(modulePath: string): Promise<NodeLlamaCpp> {
  const url = modulePath.startsWith("file:") ? modulePath : pathToFileURL(modulePath).href;
  try {
    return (await import(url)) as NodeLlamaCpp;
  } catch (cause) {
    throw new SluiceError("ENGINE_MISSING", `node-llama-cpp at ${modulePath}: ${cause}`, { cause });
  }
}

/** A context of the asked shape, or of half as many sequences until memory suffices. */
async function createContext(
  library: NodeLlamaCpp,
  model: PackageModel,
  asked: ContextShape,
): Promise<{ context: PackageContext; shape: ContextShape }> {
  for (let sequences = asked.sequences; ; sequences = Math.ceil(sequences / 2)) {
    const { contextTokens, batchTokens, threads } = asked;
    try {
      const context = await model.createContext({
        sequences,
        contextSize: contextTokens,
        batchSize: batchTokens,
        threads,
        // Without the full cache a sliding-window model forgets the prefix that requests share.
        swaFullCache: true,
      });
      return { context, shape: { ...asked, sequences } };
    } catch (cause) {
      if (cause instanceof library.InsufficientMemoryError && sequences > 1) continue;
      const detail = `${sequences} × ${contextTokens} tokens of context: ${cause}`;
      throw new SluiceError("ENGINE_START_FAILED", detail, {
        cause,
        hint: "lower model.contextTokens or model.sequences",
      });
    }
  }
}

class Loaded implements LoadedLlama {
  readonly model: PackageModel;
  readonly #llama: PackageLlama;
  readonly #context: PackageContext;

  readonly shape: ContextShape;

  constructor(
    llama: PackageLlama,
    model: PackageModel,
    context: PackageContext,
    shape: ContextShape,
  ) {
    this.shape = shape;
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

  async decode(items: readonly BatchItem[]): Promise<(number | undefined)[]> {
    const native = this.#context._ctx;
    native.initBatch(items.reduce((sum, item) => sum + item.tokens.length, 0));
    const outputs = items.map(({ sequence, start, tokens, wantsOutput }) => {
      const wanted = wantsOutput ? [tokens.length - 1] : [];
      const indexes = native.addToBatch(
        sequence,
        start,
        Uint32Array.from(tokens),
        Uint32Array.from(wanted),
      );
      return indexes[0];
    });
    await native.decodeBatch();
    return outputs;
  }

  sample(output: number, sampler: NativeSampler): Promise<number> {
    return this.#context._ctx.sampleToken(output, sampler);
  }

  createSampler(): NativeSampler {
    return new this.#llama._bindings.AddonSampler(this.model._model);
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
    await this.#context.dispose();
    await this.model.dispose();
    await this.#llama.dispose();
  }
}
