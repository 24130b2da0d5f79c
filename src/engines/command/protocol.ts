import { objectOfLine } from "../../foundation/channel.ts";
import type { TextMessage } from "../../foundation/inference.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";

/** Version of the lines below; a program names its own when it gets ready. */
export const commandProtocol = 1;

/** One request of a batch, with `messages` or `prompt`, or in a job without prompts only `row`. */
export interface CommandItem {
  /** The row's index in the input; 0 for a request outside a run. */
  index: number;
  /** The prompt's name in the job; `request` outside a job. */
  promptName: string;
  /** Position in the list of a `forEach` prompt. */
  element?: number;
  prompt?: string;
  messages?: readonly TextMessage[];
  row?: JsonObject;
  /** JSON Schema of the answer, if the job has one. */
  schema?: JsonObject;
  /** The item's own parameters, which override those of its batch. */
  parameters: JsonObject;
}

/** Messages to the program, one line for each batch. */
export interface BatchLine {
  /** Number of the batch, which its answer repeats. */
  batch: number;
  /** Parameters for all items: `max_new_tokens`, `temperature` and so on. */
  parameters: JsonObject;
  items: readonly CommandItem[];
}

/** A program's message that it is ready for batches. */
export interface ReadyLine {
  type: "ready";
  /** The version that it speaks; anything, if the program does not know what to say. */
  protocol: Json;
  name?: string;
  device?: string;
  /** The most items that it takes at once. */
  maxBatchRows?: number;
}

/** The answer to a batch. */
export type ReplyLine =
  | { type: "results"; batch: number; results: unknown }
  | { type: "error"; batch: number; error: ReportedError };

/** A failure of a batch or of one item, as reported by a program. */
export interface ReportedError {
  message: string;
  code?: string;
}

/**
 * Reads a line from a program.
 *
 * @returns undefined for a line outside the protocol, such as a library's output.
 * @example
 * readProgramLine('{"ready": 1, "name": "m"}'); // { type: "ready", protocol: 1, name: "m" }
 */
export function readProgramLine(line: string): ReadyLine | ReplyLine | undefined {
  const message = objectOfLine(line);
  if (message === undefined) return undefined;
  if (message.ready !== undefined) return readyLine(message, message.ready);
  const { batch } = message;
  if (typeof batch !== "number") return undefined;
  return message.error === undefined || message.error === null
    ? { type: "results", batch, results: message.results }
    : { type: "error", batch, error: reportedError(message.error) };
}

function readyLine({ name, device, maxBatchRows }: JsonObject, protocol: Json): ReadyLine {
  const isRows = typeof maxBatchRows === "number" && Number.isInteger(maxBatchRows);
  return {
    type: "ready",
    protocol,
    ...(typeof name === "string" && { name }),
    ...(typeof device === "string" && { device }),
    ...(isRows && maxBatchRows > 0 && { maxBatchRows }),
  };
}

/** A reported error: a text, or an object with `message` and possibly `code`. */
export function reportedError(reported: Json): ReportedError {
  if (!isJsonObject(reported)) return { message: String(reported) };
  const { message, code } = reported;
  return {
    message: typeof message === "string" ? message : JSON.stringify(reported),
    ...(typeof code === "string" && { code }),
  };
}
