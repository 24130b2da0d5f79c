import type { ExactRow } from "../../foundation/exact-json.ts";
import type { GenerationParameters, TextMessage } from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";

/** One request of a batch. */
export interface PredictorItem<Row = ExactRow> {
  /** The row as it stands in the input. */
  row: Row;
  /** The row's index in the input, from 0; 0 where the request belongs to no run. */
  index: number;
  /**
   * Name of the prompt; of a job with one prompt `prompt`, of a job without any `row`, of a request
   * that belongs to no run `request`.
   */
  promptName: string;
  /** Position in the list of a `forEach` prompt. */
  element?: number;
  /** The rendered prompt, of `api: completion`. */
  prompt?: string;
  /** The rendered conversation, of any other prompt. */
  messages?: readonly TextMessage[];
  /** How the job wants answers to be sampled; absent in a job without prompts. */
  parameters?: GenerationParameters;
  /** JSON Schema of the answer, where the job has one. */
  schema?: JsonObject;
}

/** What a predictor is told when it is loaded. */
export interface PredictorContext<Options = JsonObject> {
  /** `model.name` of the job. */
  modelName: string;
  /** `model.options` of the job. */
  options: Options;
  /** Folder that holds the module. */
  directory: string;
  /** Which of its worker's replicas this is, from 0. */
  replica: number;
  /** Replicas of the worker. */
  replicas: number;
  /** CPU threads that this replica may take. */
  threads: number;
  /** `cuda:0` where it has a GPU of its own: the only one that it sees, or the first. */
  device: string | undefined;
  /** Its GPUs as the driver names them. */
  devices: readonly string[];
  /** Most rows that a batch will have. */
  maxBatchRows: number;
}

/** What a predictor may look at while it computes a batch. */
export interface BatchCall {
  /** Aborted when nobody waits for any of the batch any more. */
  signal: AbortSignal;
}

/**
 * A result for each item, in their order, or a promise of it. An `Error`, and what a promise of one
 * item rejects with, makes a dead letter of its row alone.
 */
export type PredictorResults<Result> = readonly (Result | Error | Promise<Result | Error>)[];

/**
 * Your own code as the model of a job: `model: {engine: predictor, module: ./predict.ts}`. The
 * module exports these functions, a class that has them, or an object, by name or as its default.
 *
 * Results are any JSON values; typed arrays become lists. A text, or an object with `text` and
 * nothing but `finishReason`, `promptTokens` and `completionTokens` beside it, is an answer in
 * words.
 */
export interface Predictor<Row = ExactRow, Result = unknown, Options = JsonObject> {
  /** Called once in each replica, before the first batch. */
  load?(context: PredictorContext<Options>): void | Promise<void>;
  /**
   * Computes a batch. What it throws is the error of the guilty row alone: the batch is asked again
   * in halves until that is found. Where memory does not suffice, later batches are smaller.
   */
  predict(
    batch: readonly PredictorItem<Row>[],
    call: BatchCall,
  ): PredictorResults<Result> | Promise<PredictorResults<Result>>;
  /** Called once when the run is over. A process that was ended had no time for it. */
  close?(): void | Promise<void>;
}

/**
 * Types a predictor where it is written.
 *
 * @returns what it is given.
 * @example
 * export default predictor({
 *   predict: (batch: readonly PredictorItem<{ text: string }>[]) =>
 *     batch.map(({ row }) => row.text.length),
 * });
 */
export function predictor<Row = ExactRow, Result = Json, Options = JsonObject>(
  definition: Predictor<Row, Result, Options>,
): Predictor<Row, Result, Options> {
  return definition;
}
