import type { Answer, InferenceRequest } from "../../../foundation/inference.ts";
import type { Json } from "../../../foundation/json.ts";
import type { BatchCost } from "../../batching/next-batch.ts";
import type { MakeTensor } from "../decode/tensors.ts";
import type { Model, Tokenizer } from "../transformers-js.ts";

/** What tasks over texts need of a loaded model. */
export interface ModelParts {
  model: Model;
  tokenizer: Tokenizer;
  makeTensor: MakeTensor;
}

/** A row in a task's form, and its share of a batch. */
export interface CostedItem<Item> {
  item: Item;
  cost: BatchCost;
}

/** A task's result for one row. */
export interface TaskResult {
  answers: Answer[];
  promptTokens: number;
}

/** A task of a model, over batches. */
export interface Task<Item> {
  /**
   * Reads and tokenizes a request.
   *
   * @throws SluiceError of the row.
   */
  itemOf(request: InferenceRequest): CostedItem<Item>;
  /** Computes a batch whose items have one key: a result or an error for each. */
  run(batch: readonly Item[], signal: AbortSignal): Promise<readonly (TaskResult | Error)[]>;
  close(): Promise<void>;
}

/** An answer that is a value, not a text. */
export function valueAnswer(value: Json): Answer {
  return { text: JSON.stringify(value), value, finishReason: "stop", tokens: 0 };
}

/** Significant decimal digits that a 32-bit float holds. */
const floatDigits = 8;

/** A 32-bit float as a number with exactly its own significant digits. */
export function shortNumber(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value === 0 ? 0 : value;
  const scale = 10 ** (floatDigits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return Number.isFinite(scale) ? Math.round(value * scale) / scale : value;
}
