import type { GgufMetadata } from "./gguf-metadata.ts";

/** Size of a context. */
export interface ContextShape {
  sequences: number;
  /** Tokens of each sequence. */
  contextTokens: number;
  batchTokens: number;
  threads: number;
}

/** A user's wishes for the context. */
export interface ShapeOptions {
  sequences?: number;
  contextTokens?: number;
  batchTokens?: number;
  threads?: number;
}

/** Bounds of the context. */
export interface ShapeLimits {
  metadata: GgufMetadata;
  trainedTokens: number;
  /** Bytes for the context; undefined if the library manages its memory (a GPU). */
  freeBytes: number | undefined;
  cores: number;
}

const defaultSequences = 32;
const defaultContextTokens = 2048;
const defaultBatchTokens = 512;
/** Share of the free memory for the context; the rest is for the pages of the model. */
const memoryShare = 0.5;

/**
 * The size of the context: 32 sequences of at most 2048 tokens by default, fewer sequences if
 * memory is short.
 */
export function contextShape(options: ShapeOptions, limits: ShapeLimits): ContextShape {
  const contextTokens =
    options.contextTokens ?? Math.min(limits.trainedTokens, defaultContextTokens);
  const bytes = stateBytesPerToken(limits.metadata) * contextTokens;
  const fitting =
    limits.freeBytes === undefined || bytes === 0
      ? Number.POSITIVE_INFINITY
      : Math.max(1, Math.floor((limits.freeBytes * memoryShare) / bytes));
  const sequences = options.sequences ?? Math.min(defaultSequences, fitting);
  return {
    sequences,
    contextTokens,
    batchTokens: Math.max(options.batchTokens ?? defaultBatchTokens, sequences),
    threads: options.threads ?? limits.cores,
  };
}

/** Bytes of one token of context (keys and values as 16-bit floats); 0 when unknown. */
export function stateBytesPerToken(metadata: GgufMetadata): number {
  const architecture = metadata[metadata.general?.architecture ?? ""] as Architecture | undefined;
  const attention = architecture?.attention;
  const heads = numberOf(attention?.head_count);
  const layers = numberOf(architecture?.block_count);
  if (attention === undefined || heads === 0 || layers === 0) return 0;
  const headLength = numberOf(architecture?.embedding_length) / heads;
  const perHead =
    (numberOf(attention.key_length) || headLength) +
    (numberOf(attention.value_length) || headLength);
  return layers * (numberOf(attention.head_count_kv) || heads) * perHead * 2;
}

interface Architecture {
  block_count?: unknown;
  embedding_length?: unknown;
  attention?: Record<string, unknown>;
}

/** A number of the metadata; for a list by layer, the largest. */
function numberOf(value: unknown): number {
  if (Array.isArray(value)) return Math.max(0, ...value.map(numberOf));
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}
