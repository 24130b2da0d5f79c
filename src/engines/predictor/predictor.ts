import type { ExactRow } from "../../foundation/exact-json.ts";
import type { SamplingParameters, TextMessage } from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";

/** One request of a batch. */
export interface PredictorItem<Row = ExactRow> {
  /** The row from the input. */
  row: Row;
  /** The row's index in the input, from 0; 0 for a request outside a run. */
  index: number;
  /**
   * Name of the prompt: `prompt` in a job with one prompt, `row` in a job without any, `request`
   * for a request outside a run.
   */
  promptName: string;
  /** Position in the list of a `forEach` prompt. */
  element?: number;
  /** The rendered prompt, with `api: completion`. */
  prompt?: string;
  /** The rendered conversation, for any other prompt. */
  messages?: readonly TextMessage[];
  /** The job's sampling parameters; absent in a job without prompts. */
  parameters?: SamplingParameters;
  /** JSON Schema of the answer, if the job has one. */
  schema?: JsonObject;
}

/** What a predictor learns when it is loaded. */
export interface PredictorContext<Options = JsonObject> {
  /** `model.name` of the job. */
  modelName: string;
  /** `model.options` of the job. */
  options: Options;
  /** Folder of the module. */
  directory: string;
  /** Number of this replica in its worker, from 0. */
  replica: number;
  /** Replicas of the worker. */
  replicas: number;
  /** CPU threads for this replica. */
  threads: number;
  /** `cuda:0` if it has a GPU of its own: the only one that it sees, or the first. */
  device: string | undefined;
  /** Its GPUs by the driver's names. */
  devices: readonly string[];
  /** Most rows of a batch. */
  maxBatchRows: number;
}

/**
 * The requests of a batch over HTTP, and what its replies say beside their bodies. Requests are
 * numbered in the order of the batch.
 */
export interface HandlerCalls {
  get_request_id(idx?: number): string | undefined;
  /** A header by its name as it was sent, else in any case. */
  get_request_header(idx: number, key: string): string | undefined;
  get_all_request_header(idx: number): Readonly<Record<string, string>>;
  set_response_content_type(idx: number, value: string): void;
  set_response_header(idx: number, key: string, value: string): void;
  set_response_status(code?: number, phrase?: string, idx?: number): void;
  set_all_response_status(code?: number, phrase?: string): void;
}

/** The context of a batch in work. */
export interface BatchCall {
  /** Aborted when none of the batch is needed any more. */
  signal: AbortSignal;
  /** The batch's HTTP requests, if the module comes from an archive of `sluice serve`. */
  requests?: HandlerCalls;
}

/**
 * A result for each item, in their order, or a promise of it. An `Error`, or the rejection of one
 * item's promise, makes a dead letter of that row alone.
 */
export type PredictorResults<Result> = readonly (Result | Error | Promise<Result | Error>)[];

/**
 * Your own code as the model of a job: `model: {engine: predictor, module: ./predict.ts}`. The
 * module exports these functions, a class that has them, or an object, by name or as its default.
 *
 * Results are any JSON values; typed arrays become lists. A text, or an object with `text` and only
 * `finishReason`, `promptTokens` and `completionTokens` beside it, is an answer in text.
 */
export interface Predictor<Row = ExactRow, Result = unknown, Options = JsonObject> {
  /** Called once in each replica, before the first batch. */
  load?(context: PredictorContext<Options>): void | Promise<void>;
  /**
   * Computes a batch. A thrown error belongs to one row: the batch is computed again in halves
   * until that row is found. After an error of missing memory, later batches are smaller.
   */
  predict(
    batch: readonly PredictorItem<Row>[],
    call: BatchCall,
  ): PredictorResults<Result> | Promise<PredictorResults<Result>>;
  /** Called once when the run is over. A killed process has no time for it. */
  close?(): void | Promise<void>;
}

/**
 * Gives a predictor its type where it is written.
 *
 * @returns its argument.
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
