import { pathToFileURL } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";
import type { GgufMetadata } from "../weights/gguf-metadata.ts";

// The used part of node-llama-cpp. The package is not a dependency: it is loaded from its place of
// installation, so its types are declared here. Names with `_` are private to it;
// `engines/packages` pins the version.

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
  /** Tokens with a raised logit, and by how much. */
  tokenBiasKeys?: Uint32Array;
  tokenBiasValues?: Float32Array;
}

/** Logits as the addon lists them: token, logit, token, logit, … */
export type TokenValues = readonly number[];

/**
 * The logits to list: those of some tokens, of the one that the sampler selects, and the `top`
 * highest, for which all must be sorted.
 */
export type WantedLogits = [
  tokens: number[],
  highest: false,
  lowest: false,
  selected: boolean,
  top: number,
];

export interface NativeContext {
  initBatch(size: number): void;
  addToBatch(
    sequence: number,
    start: number,
    tokens: Uint32Array,
    logitIndexes: Uint32Array,
  ): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(logitIndex: number, sampler: NativeSampler): Promise<number>;
  sampleToken(
    logitIndex: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: false,
    logits: WantedLogits,
    /** The sum of all exp(logit - highest logit). */
    totalLogitWeight: true,
  ): Promise<[number, undefined, undefined, TokenValues | undefined, number | undefined]>;
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean;
  disposeSequence(sequence: number): void;
  /** -1 if it holds nothing. */
  getSequenceKvCacheMaxPosition(sequence: number): number;
  copySequenceStateFromOtherSequence(target: number, source: number): Promise<number>;
}

export interface PackageContext {
  readonly _ctx: NativeContext;
  dispose(): Promise<void>;
}

/** A LoRA adapter in the package's form. */
export interface AdapterFile {
  filePath: string;
  scale: number;
}

export interface EmbeddingContext {
  readonly _llamaContext: { _setLoras(adapters: AdapterFile[]): Promise<void> };
  getEmbeddingFor(tokens: readonly number[]): Promise<{ vector: readonly number[] }>;
  dispose(): Promise<void>;
}

export interface PackageModel {
  readonly _model: {
    getTokenString(token: number): string | undefined;
    getTokenAttributes(token: number): number;
  };
  readonly fileInfo: { metadata: GgufMetadata };
  /** Whether some layers keep one state for a sequence, from which no token can be removed. */
  readonly fileInsights: { isRecurrent: boolean; isHybrid: boolean };
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
  /** Reads an adapter once; contexts then find it by its path. */
  _getOrLoadLora(filePath: string): Promise<object>;
  iterateAllTokens(): Iterable<number>;
  createContext(options: {
    sequences: number;
    contextSize: number;
    batchSize: number;
    threads: number;
    swaFullCache: boolean;
    lora?: { adapters: AdapterFile[] };
  }): Promise<PackageContext>;
  createEmbeddingContext(options: {
    contextSize: number;
    batchSize: number;
    threads: number;
  }): Promise<EmbeddingContext>;
  dispose(): Promise<void>;
}

export interface PackageLlama {
  readonly gpu: string | false;
  /** Cores that are worth a thread of arithmetic. */
  readonly cpuMathCores: number;
  readonly _bindings: {
    AddonSampler: new (model: object) => NativeSampler;
  };
  loadModel(options: { modelPath: string; gpuLayers?: number }): Promise<PackageModel>;
  dispose(): Promise<void>;
}

export interface NodeLlamaCpp {
  getLlama(options: {
    gpu: "auto" | false;
    build: "never";
    maxThreads: number;
    logLevel: "warn";
    logger: (level: string, message: string) => void;
    progressLogs: false;
  }): Promise<PackageLlama>;
  InsufficientMemoryError: new (...args: never[]) => Error;
}

/**
 * Loads the package from its place of installation.
 *
 * @param modulePath address of its main module, or its path.
 * @throws SluiceError `ENGINE_MISSING`
 */
export async function loadLibrary(modulePath: string): Promise<NodeLlamaCpp> {
  const url = modulePath.startsWith("file:") ? modulePath : pathToFileURL(modulePath).href;
  try {
    return (await import(url)) as NodeLlamaCpp;
  } catch (cause) {
    throw new SluiceError("ENGINE_MISSING", `node-llama-cpp at ${modulePath}: ${cause}`, { cause });
  }
}
