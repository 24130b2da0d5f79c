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

/**
 * Whatever runs a model: in process, over HTTP, or your own class. An engine batches inside; the
 * caller only keeps at most `capacity` requests with it.
 */
export interface Engine {
  readonly name: string;
  /** Requests it can usefully hold at once. May rise and fall: read it whenever it counts. */
  readonly capacity: number;
  /** What it chose for itself (threads, sequences, device), for the log and the manifest. */
  readonly choices?: Readonly<Record<string, Json>>;
  /**
   * Answers one request.
   *
   * @param onDelta told of each answer as it is made: the texts of its deltas, joined, are the
   *   answer's text, and none comes after the promise is settled. An engine that cannot do that
   *   tells nothing; who opened it by `openEngine` is then told each answer once, as a whole. Where
   *   it is left out, nothing is streamed.
   * @throws SluiceError whose `scope` and `retryable` say what the failure ends: `row` (retryable
   *   or not), `run` (stop everything), `engine` (it died; the next `infer` starts it again).
   *   When `signal` is aborted, the signal's reason.
   */
  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse>;
  /**
   * Told when nothing more is asked until something is answered, as at the end of a shard: what
   * waits for others to fill its batch is to be computed now. Absent where nothing waits.
   */
  flush?(): void;
  /** Where its rows are, of an engine that passes them through several stages. */
  readonly stages?: readonly StageState[] | undefined;
  /**
   * Makes tokens of prompts ahead of asking, for `InferenceRequest.tokens`; of no prompts it tells
   * the tokenizer alone. Absent where an engine leaves that to a server, or has no tokens.
   *
   * @throws SluiceError of scope `engine` when it died.
   */
  tokenize?(prompts: readonly PromptWords[]): Promise<TokenizedPrompts>;
  /** Lets go of everything. Requests still held are rejected. */
  close(): Promise<void>;
}

/** One stage of an engine at a moment, and what it has done since the engine was opened. */
export interface StageState {
  /** Its number, from 1, and what it is, as `2 mapBatches embed`. */
  stage: string;
  /** Rows that wait for it, and rows that it computes; both are bounded. */
  waiting: number;
  inFlight: number;
  rowsIn: number;
  rowsOut: number;
  /** Rows that it failed with. */
  failed: number;
  /** Times it was called: batches, or requests to a model. */
  calls: number;
  /** Seconds of all its calls together. */
  busySeconds: number;
  replicas: number;
}

/** A model that a stage asks about rows: an engine, and the prompts that it is asked. */
export interface RowModel {
  /** Rows that it can usefully be asked about at once. */
  readonly capacity: number;
  /**
   * Asks about a row, again where an answer is wrong or does not come.
   *
   * @returns the row with its answer.
   * @throws SluiceError as `Engine.infer`, once it was tried as often as the job allows.
   */
  ask(
    row: JsonObject,
    index: number,
    call: {
      signal: AbortSignal;
      addUsage(usage: Usage): void;
      /** Told where an answer ended at its limit of tokens. */
      noteCut?(): void;
    },
  ): Promise<JsonObject>;
  /** As `Engine.flush`. */
  flush(): void;
  close(): Promise<void>;
}

/** The words of a prompt. */
export type PromptWords = Pick<InferenceRequest, "messages" | "prompt">;

export interface TokenizedPrompts {
  /** Digest of all that tokens follow from: vocabulary, rules, chat template. */
  tokenizer: string;
  /** In the order of the prompts; null where none can be made, for which asking has the reason. */
  prompts: readonly (PromptTokens | null)[];
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
   * `engines/host/main`, as `src/entry.ts` knows it.
   */
  hostCommand: readonly string[];
  /**
   * Opens the model that a stage of a pipeline names. Engines know nothing of prompts, so that the
   * caller that has both hands it down; absent where there are no pipelines.
   *
   * @param stage as the job has it: `model`, `prompt`, `field` and what else goes with them.
   */
  openRowModel?(stage: JsonObject, context: EngineContext): Promise<RowModel>;
  /** Functions of the program that runs this, which stages name by their place. */
  functions?: readonly unknown[];
  /** Ends the worker process at once, as `kill -9` would (faults of the fake engine). */
  killProcess: () => void;
}
