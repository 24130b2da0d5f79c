import type { Clock } from "../foundation/clock.ts";
import type { InferenceRequest, InferenceResponse, PromptTokens } from "../foundation/inference.ts";
import type { Json } from "../foundation/json.ts";
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
   * @throws SluiceError whose `scope` and `retryable` say what the failure ends: `row` (retryable
   *   or not), `run` (stop everything), `engine` (it died; the next `infer` starts it again).
   *   When `signal` is aborted, the signal's reason.
   */
  infer(request: InferenceRequest, signal: AbortSignal): Promise<InferenceResponse>;
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
  /** Ends the worker process at once, as `kill -9` would (faults of the fake engine). */
  killProcess: () => void;
}
