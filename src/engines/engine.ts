import type { Clock } from "../foundation/clock.ts";
import type {
  InferenceRequest,
  InferenceResponse,
  OnDelta,
  PromptTokens,
  Usage,
} from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";
import type { Telemetry } from "../foundation/telemetry.ts";
import type { BatchRecords, BatchState } from "./batch-records.ts";

/**
 * Runs a model: in this process, in one of its own, or over HTTP. An engine batches inside; the
 * caller only keeps at most `capacity` requests in flight.
 */
export interface Engine {
  readonly name: string;
  /** Requests that it can usefully hold at once. It rises and falls: read it whenever it counts. */
  readonly capacity: number;
  /**
   * Requests that it computes at once, if it holds others besides: those wait behind them, whatever
   * their priority. Default: `capacity`.
   */
  readonly concurrency?: number | undefined;
  /** Its own choices (threads, sequences, device), for the log and the manifest. */
  readonly choices?: Readonly<Record<string, Json>>;
  /**
   * Answers one request.
   *
   * @param onDelta called with each answer as it is made: the joined texts of its deltas are the
   *   answer's text, and none comes after the promise is settled. An engine that cannot stream
   *   calls nothing; callers of `openEngine` then get each answer once, as a whole. Without
   *   `onDelta`, nothing is streamed.
   * @throws SluiceError whose `scope` and `retryable` say what the failure ends: `row` (retryable
   *   or not), `run` (stop everything), `engine` (it died; the next `infer` starts it again). When
   *   `signal` is aborted, the signal's reason.
   */
  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse>;
  /**
   * Called when no more requests follow until one is answered, such as at the end of a task:
   * incomplete batches should be computed now. Absent if nothing waits.
   */
  flush?(): void;
  /** The positions of rows, in an engine with several stages. */
  readonly stages?: readonly StageState[] | undefined;
  /** Its batches at a provider, for an engine that sends requests in such. */
  readonly batches?: readonly BatchState[] | undefined;
  /**
   * True if its requests outlive it, and the next engine of the run finds them again: nobody waits
   * for them at a stop.
   */
  readonly keepsRequests?: boolean | undefined;
  /**
   * Tokenizes prompts ahead of their requests, for `InferenceRequest.tokens`; without prompts it
   * only returns the tokenizer. Absent if a server tokenizes, or without tokens.
   *
   * @throws SluiceError of scope `engine` if it died.
   */
  tokenize?(prompts: readonly PromptWords[]): Promise<TokenizedPrompts>;
  /** Releases everything. Requests in flight are rejected. */
  close(): Promise<void>;
}

/** One stage of an engine at one moment, with its counts since the engine was opened. */
export interface StageState {
  /** Its number, from 1, and its name, such as `2 mapBatches embed`. */
  stage: string;
  /** Waiting rows, and rows in work; both are limited. */
  waiting: number;
  inFlight: number;
  rowsIn: number;
  rowsOut: number;
  /** Rows that it failed. */
  failed: number;
  /** Number of its calls: batches, or requests to a model. */
  calls: number;
  /** Total seconds of its calls. */
  busySeconds: number;
  replicas: number;
}

/** A model that a stage sends rows to: an engine with the stage's prompts. */
export interface RowModel {
  /** Rows that it can usefully hold at once. */
  readonly capacity: number;
  /**
   * Sends a row, again after a wrong or missing answer.
   *
   * @returns the row with its answer.
   * @throws SluiceError as `Engine.infer`, after as many tries as the job allows.
   */
  ask(
    row: JsonObject,
    index: number,
    call: {
      signal: AbortSignal;
      addUsage(usage: Usage): void;
      /** Called if an answer reached its token limit. */
      noteCut?(): void;
    },
  ): Promise<JsonObject>;
  /** Like `Engine.flush`. */
  flush(): void;
  close(): Promise<void>;
}

/** A prompt as tokens. */
export type PromptWords = Pick<InferenceRequest, "messages" | "prompt">;

export interface TokenizedPrompts {
  /** Digest of everything that decides the tokens: vocabulary, rules, chat template. */
  tokenizer: string;
  /** In the order of the prompts; null for a prompt whose request will fail with the reason. */
  prompts: readonly (PromptTokens | null)[];
}

/** The image in which a worker runs already: set for a backend that brings it. */
export const insideImageVariable = "SLUICE_INSIDE_IMAGE";

/** A program of a task, as the engine that runs it names it. */
export interface ProgramOfTask {
  /** Place of the row in the input, from 0. */
  row: number;
  /** A stable id of the task. */
  id: string;
}

/**
 * One try of a task's program, as the floor above carries it out: the engine starts the program and
 * knows nothing of stores.
 */
export interface ProgramTry {
  /** The result of an earlier try that was staged out: the program must not run again. */
  readonly done?: JsonObject | undefined;
  /** The worker that tries; null outside of runs. */
  readonly worker: string | null;
  /** The job's mounts, and the folders of this machine with their objects. */
  readonly mounts: readonly { path: string; place: string }[];
  /** Adds a line to the log of the try. */
  log(line: JsonObject): Promise<void>;
  /**
   * The program ended well: stages its results out.
   *
   * @returns the result that counts, which may be that of another process.
   * @throws SluiceError `MOUNT_FAILED`.
   */
  succeed(result: JsonObject): Promise<JsonObject>;
  /** Ends the try, in whichever way. */
  close(): Promise<void>;
}

/** Where the programs of tasks find objects and leave logs and results. */
export interface ProgramPlaces {
  /** A text that no other run has, for names outside of the run. */
  readonly run: string;
  /** @throws SluiceError `MOUNT_FAILED` if objects cannot be staged in; errors of the store. */
  begin(task: ProgramOfTask, signal: AbortSignal): Promise<ProgramTry>;
}

/** What engines may use of the outside world; tests pass their own. */
export interface EngineContext {
  clock: Clock;
  random: Random;
  logger: Logger;
  /** Environment variables, for `apiKeyEnv` and proxies. Never copied into a plan. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Folder of caches: models and engine packages. */
  homeDirectory: string;
  /**
   * Command line that starts an engine host: the program of this very Node and the path of
   * `engines/host/main`, known to `src/entry.ts`.
   */
  hostCommand: readonly string[];
  /**
   * Opens the model of a pipeline's stage. Engines know nothing of prompts, so the caller, which
   * has both, passes this function; absent without pipelines.
   *
   * @param stage as in the job: `model`, `prompt`, `field` and the keys beside them.
   */
  openRowModel?(stage: JsonObject, context: EngineContext): Promise<RowModel>;
  /** Places of the programs of engine `program`; absent outside of runs: then nothing is kept. */
  programPlaces?: ProgramPlaces;
  /** Batches of the run at a provider; absent outside of runs: then there can be none. */
  batchRecords?: BatchRecords;
  /** Functions of the running program, to which stages refer by number. */
  functions?: readonly unknown[];
  /** Where spans go; absent where nobody asked for them. */
  telemetry?: Telemetry;
  /** Called with the number of requests of each batch that an engine forms. */
  onBatch?(requests: number): void;
  /** Ends the worker process at once, as `kill -9` would (faults of the fake engine). */
  killProcess: () => void;
}
