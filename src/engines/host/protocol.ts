import type { ErrorRecord } from "../../foundation/errors.ts";
import type {
  AnswerDelta,
  InferenceRequest,
  InferenceResponse,
  OnDelta,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import type { PromptWords, TokenizedPrompts } from "../engine.ts";

/** Version of the messages below; both ends must speak the same one. */
export const hostProtocol = 4;

/** Which implementation a host runs. */
export type HostedKind = "llama" | "openvino" | "predictor" | "stages" | "transformers";

/** A request whose prompt is tokens already, to a library that knows no more. */
export interface TokenRequest {
  tokens: readonly number[];
  /** Settings by the library's own names. */
  generation: JsonObject;
  /** Answers that are wanted. */
  answers: number;
  /** Texts that end an answer. */
  stop?: readonly string[];
  /** The texts that an answer may be, in GBNF. */
  grammar?: string;
}

/**
 * What a worker tells its engine host. Hosts in Node get requests and prompts as engines do; a host
 * in another language gets tokens, and the pieces of prompts that tokens are made of.
 */
export type ToHost<Request = InferenceRequest, Prompt = PromptWords> =
  | { type: "host-open"; protocol: number; kind: HostedKind; options: Json }
  /** With `streams`, `infer-deltas` come before its end. */
  | { type: "infer"; id: number; request: Request; streams?: boolean }
  /** Ends in `batch-end` or `infer-fail`. */
  | { type: "batch"; id: number; items: readonly Json[] }
  | { type: "infer-abort"; id: number }
  /** Numbered together with `infer`; ends in `tokenize-end` or `infer-fail`. */
  | { type: "tokenize"; id: number; prompts: readonly Prompt[] }
  | { type: "host-close" };

/** What an engine host tells its worker. */
export type FromHost =
  | ({ type: "host-ready"; protocol: number; tokenizes: boolean; model?: Json } & HostedFacts)
  | { type: "host-failed"; error: ErrorRecord }
  /** What answers got since the message before, in order, of all requests that stream. */
  | { type: "infer-deltas"; deltas: readonly HostedDelta[] }
  | { type: "infer-end"; id: number; response: InferenceResponse }
  | { type: "infer-fail"; id: number; error: ErrorRecord }
  | { type: "batch-end"; id: number; replies: readonly BatchReply[] }
  /** Of pieces, the tokens of each piece of each prompt. */
  | { type: "tokenize-end"; id: number; tokenized: TokenizedPrompts | PieceTokens };

/** For each prompt, the tokens of each of its pieces. */
export type PieceTokens = (readonly number[])[][];

/** A delta of the request with that number. */
export interface HostedDelta extends AnswerDelta {
  id: number;
}

/** What became of one item of a batch. */
export type BatchReply = { value: Json } | { error: ErrorRecord };

/** What an engine chose for itself: threads, sequences, device. */
export type Choices = Readonly<Record<string, Json>>;

/** What an engine says of itself once it is ready. */
interface HostedFacts {
  readonly name: string;
  readonly capacity: number;
  readonly choices: Choices;
}

/** An engine as it lives inside a host. It may batch; the host hands it every request at once. */
export interface HostedEngine extends HostedFacts {
  /** As `Engine.infer`; a failure that is not a `SluiceError` ends the host. */
  infer(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse>;
  /** Computes a batch, where the worker forms batches; failures as those of `infer`. */
  runBatch?(items: readonly Json[], signal: AbortSignal): Promise<readonly BatchReply[]>;
  /** As `Engine.tokenize`. */
  tokenize?(prompts: readonly PromptWords[]): Promise<TokenizedPrompts>;
  close(): Promise<void>;
}
