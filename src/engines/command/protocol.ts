import { objectOfLine } from "../../foundation/channel.ts";
import type { TextMessage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";

/** Version of the lines below; a program names the one that it speaks as it gets ready. */
export const commandProtocol = 1;

/** One request of a batch, with `messages` or `prompt`, or in a job without prompts only `row`. */
export interface CommandItem {
  /** The row's index in the input; 0 where the request belongs to no run. */
  index: number;
  /** Which of the job's prompts; `request` where there is no job. */
  promptName: string;
  /** Position in the list of a `forEach` prompt. */
  element?: number;
  prompt?: string;
  messages?: readonly TextMessage[];
  row?: JsonObject;
  /** JSON Schema of the answer, where the job has one. */
  schema?: JsonObject;
  /** What is the item's own of the parameters, above those of its batch. */
  parameters: JsonObject;
}

/** What the program is sent, one line a batch. */
export interface BatchLine {
  /** Number of the batch, which its answer repeats. */
  batch: number;
  /** How to generate, for all items: `max_new_tokens`, `temperature` and so on. */
  parameters: JsonObject;
  items: readonly CommandItem[];
}

/** A line in which a program says that it is ready for batches. */
export interface ReadyLine {
  type: "ready";
  protocol: number;
  name?: string;
  device?: string;
  /** The most items that it takes at once. */
  maxBatchRows?: number;
}

/** The answer to a batch. */
export type ReplyLine =
  | { type: "results"; batch: number; results: unknown }
  | { type: "error"; batch: number; error: ReportedError };

/** A failure as a program reports it, of a batch or of one item. */
export interface ReportedError {
  message: string;
  code?: string;
}

/**
 * Reads a line that a program wrote.
 *
 * @returns undefined where it is none of the protocol, such as what a library prints.
 * @example
 * readProgramLine('{"ready": 1, "name": "m"}'); // { type: "ready", protocol: 1, name: "m" }
 */
export function readProgramLine(line: string): ReadyLine | ReplyLine | undefined {
  const message = objectOfLine(line);
  if (message === undefined) return undefined;
  if (typeof message.ready === "number") return readyLine(message, message.ready);
  const { batch } = message;
  if (typeof batch !== "number") return undefined;
  return message.error === undefined || message.error === null
    ? { type: "results", batch, results: message.results }
    : { type: "error", batch, error: reportedError(message.error) };
}

function readyLine({ name, device, maxBatchRows }: JsonObject, protocol: number): ReadyLine {
  const isRows = typeof maxBatchRows === "number" && Number.isInteger(maxBatchRows);
  return {
    type: "ready",
    protocol,
    ...(typeof name === "string" && { name }),
    ...(typeof device === "string" && { device }),
    ...(isRows && maxBatchRows > 0 && { maxBatchRows }),
  };
}

/** A reported error: a text, or an object with `message` and perhaps `code`. */
export function reportedError(reported: Json): ReportedError {
  if (!isJsonObject(reported)) return { message: String(reported) };
  const { message, code } = reported;
  return {
    message: typeof message === "string" ? message : JSON.stringify(reported),
    ...(typeof code === "string" && { code }),
  };
}
