import type { ErrorRecord } from "../../foundation/errors.ts";
import type {
  AnswerDelta,
  InferenceRequest,
  InferenceResponse,
  OnDelta,
} from "../../foundation/inference.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import type { PromptWords, TokenizedPrompts } from "../engine.ts";

/** Version of the messages below; both ends must have the same one. */
export const hostProtocol = 5;

/** The implementation that a host runs. */
export type HostedKind = "llama" | "openvino" | "predictor" | "stages" | "transformers";

/** A request with a tokenized prompt, for a library that knows no more. */
export interface TokenRequest {
  tokens: readonly number[];
  /** Settings by the library's own names. */
  generation: JsonObject;
  answers: number;
  /** Texts that end an answer. */
  stop?: readonly string[];
  /** The possible texts of the answer, in GBNF. */
  grammar?: string;
  /** Whether the answer may call tools: its text then has special tokens and is not trimmed. */
  mayCall?: boolean;
}

/**
 * Messages of a worker to its engine host. Hosts in Node get requests and prompts like engines; a
 * host in another language gets tokens, and pieces of prompts to tokenize.
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

/** Messages of an engine host to its worker. */
export type FromHost =
  | ({ type: "host-ready"; protocol: number; tokenizes: boolean; model?: Json } & HostedFacts)
  | { type: "host-failed"; error: ErrorRecord }
  /** Before it is ready: the host fetches what it loads, and needs that much longer. */
  | { type: "host-fetching"; bytes: number }
  /** New text of answers since the last message, in order, of all requests that stream. */
  | { type: "infer-deltas"; deltas: readonly HostedDelta[] }
  | { type: "infer-end"; id: number; response: InferenceResponse }
  | { type: "infer-fail"; id: number; error: ErrorRecord }
  | { type: "batch-end"; id: number; replies: readonly BatchReply[] }
  /** The host has put so many requests together. */
  | { type: "batch-formed"; requests: number }
  /** For pieces: the tokens of each piece of each prompt. */
  | { type: "tokenize-end"; id: number; tokenized: TokenizedPrompts | PieceTokens };

/** For each prompt, the tokens of each of its pieces. */
export type PieceTokens = (readonly number[])[][];

/** A delta of the request with that number. */
export interface HostedDelta extends AnswerDelta {
  id: number;
}

/** The outcome of one item of a batch. */
export type BatchReply = { value: Json } | { error: ErrorRecord };

/** An engine's own choices: threads, sequences, device. */
export type Choices = Readonly<Record<string, Json>>;

/** An engine's facts once it is ready. */
interface HostedFacts {
  readonly name: string;
  readonly capacity: number;
  /** Like `Engine.concurrency`. */
  readonly concurrency?: number | undefined;
  readonly choices: Choices;
}

/** An engine inside a host. It may batch; the host passes it every request at once. */
export interface HostedEngine extends HostedFacts {
  /** Like `Engine.infer`, if requests come singly; a failure but a `SluiceError` ends the host. */
  infer?(
    request: InferenceRequest,
    signal: AbortSignal,
    onDelta?: OnDelta,
  ): Promise<InferenceResponse>;
  /** Computes a batch, if the worker forms batches; failures like those of `infer`. */
  runBatch?(items: readonly Json[], signal: AbortSignal): Promise<readonly BatchReply[]>;
  /** Like `Engine.tokenize`. */
  tokenize?(prompts: readonly PromptWords[]): Promise<TokenizedPrompts>;
  close(): Promise<void>;
}
