import type { ErrorCode } from "../../foundation/error-table.ts";
import { type ServerFault, SluiceError } from "../../foundation/errors.ts";
import { parseExactly } from "../../foundation/exact-json.ts";
import { sha256Hex } from "../../foundation/hashing.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { wireTable } from "../../foundation/wire-table.ts";
import type { JobSpec } from "../job/schema.ts";
import type { Plan } from "../plan/plan.ts";

/** Name of the format in `input.format` and `output.format`. */
export const openaiBatch = "openai-batch";

/** True if the output's lines are those of the OpenAI Batch API. */
export function writesBatchLines({ output }: JobSpec): boolean {
  return output.format === openaiBatch;
}

/** True if a failed row has a line among the results, beside its dead letter. */
export function resultsHoldFailed(job: JobSpec): boolean {
  return writesBatchLines(job) && job.output.errorFile === undefined;
}

/** True if the rows of an input are requests, which need no prompt. */
export function isBatchInput({ input }: JobSpec): boolean {
  return input.every(({ format }) => format === openaiBatch);
}

/** The field that identifies the rows of an input. */
export function idFieldOf(source: JobSpec["input"][number]): string | undefined {
  return source.id ?? (source.format === openaiBatch ? "custom_id" : undefined);
}

/**
 * Refuses what lines of the OpenAI Batch API cannot hold: several requests a row, and additional
 * columns.
 *
 * @throws SluiceError `JOB_INVALID`, naming the key.
 */
export function assertBatchOutput(job: JobSpec): void {
  const { output, prompt, generation } = job;
  if (!writesBatchLines(job)) {
    const key = (["errorFile", "modelName"] as const).find((each) => output[each] !== undefined);
    if (key === undefined) return;
    throw invalid(`output.${key}`, "it needs output.format: openai-batch");
  }
  if (job.prompts) throw invalid("prompts", "a line of the output has one response; give prompt");
  if (prompt?.forEach !== undefined) {
    throw invalid("prompt.forEach", "a line of the output has one response");
  }
  if (prompt?.turns === "every") {
    throw invalid("prompt.turns", "a line of the output has one response; give first or last");
  }
  if (output.include.length > 0) throw invalid("output.include", "a response says its usage");
  if (generation.returnFullText) {
    throw invalid("generation.returnFullText", "a response holds the answer alone");
  }
}

function invalid(field: string, problem: string): SluiceError {
  return new SluiceError("JOB_INVALID", `with output.format openai-batch: ${problem}`, { field });
}

/** The part of a line that describes its row, whether it was answered or not. */
export interface BatchRow {
  index: number;
  /** The row, or other content if it could not be read. */
  row: unknown;
  /** Value of the field that identifies it. */
  id: string | number | bigint | null;
}

/** A dead letter, as far as its line needs it. */
interface FailedRow extends BatchRow, FailedRequest {
  file: string;
  line: number;
}

interface FailedRequest {
  code: string;
  message: string;
  field?: string;
  /** Dead letters of earlier versions lack it. */
  server?: ServerFault;
}

/** Objects with an id of their own, and the beginning of that id. A list of embeddings has none. */
const idPrefixes = [
  ["chat.completion", "chatcmpl"],
  ["text_completion", "cmpl"],
] as const;

/** Writes result lines in the form of the OpenAI Batch API. */
export class BatchLines {
  /** Runs that began in the same second have the same id, and draw different seeds. */
  readonly #run: string;
  readonly #created: number;
  readonly #hasCustomIds: boolean;

  constructor(plan: Pick<Plan, "runId" | "createdAt" | "seed" | "job">) {
    this.#run = `${plan.runId}/${plan.createdAt}/${plan.seed}`;
    this.#created = Math.floor(Date.parse(plan.createdAt) / 1000);
    this.#hasCustomIds = isBatchInput(plan.job);
  }

  /** @param bodyJson the answer as a response body without its `id`. */
  answered(row: BatchRow, bodyJson: string): string {
    const hash = this.#hashOf(row);
    const prefix = idPrefixes.find(([object]) => bodyJson.startsWith(`{"object":"${object}"`))?.[1];
    const name = prefix ? `"id":"${prefix}-${hash}","created":${this.#created},` : "";
    const body = `{${name}${bodyJson.slice(1)}`;
    const response = `{"status_code":200,"request_id":"req_${hash}","body":${body}}`;
    return `${this.#head(row, hash)},"response":${response},"error":null}`;
  }

  /**
   * The line of a failed row, from its dead letter. The server's status and error stay as they were
   * given; what the error lacks is filled in.
   */
  failed(letterJson: string): string {
    const letter = JSON.parse(letterJson) as FailedRow;
    // The text has all digits of a number.
    if (typeof letter.id === "number") {
      letter.id = (parseExactly(letterJson) as Pick<BatchRow, "id">).id;
    }
    const hash = this.#hashOf(letter);
    // The place helps beside the input, where the dead letter has it.
    const message = letter.message.replace(` (${letter.file}:${letter.line})`, "");
    const { status, error } = failedResponse({ ...letter, message });
    const response = { status_code: status, request_id: `req_${hash}`, body: { error } };
    const facts = JSON.stringify({ response, error: { code: nameOf(letter.code), message } });
    return `${this.#head(letter, hash)},${facts.slice(1)}`;
  }

  #head(row: BatchRow, hash: string): string {
    return `{"id":"batch_req_${hash}","custom_id":${JSON.stringify(this.#customIdOf(row))}`;
  }

  #customIdOf({ row, id, index }: BatchRow): Json {
    if (!this.#hasCustomIds) return String(id ?? `row-${index}`);
    return isJsonObject(row) ? (row.custom_id ?? null) : null;
  }

  /** The same each time a row's line is written, so that a resumed run gives the same bytes. */
  #hashOf({ index }: BatchRow): string {
    return sha256Hex(`${this.#run}/${index}`).slice(0, 32);
  }
}

/** The answer in a line of a batch's results, or its error, for people. */
export function answerInBatchLine({ response = null, error = null }: JsonObject): Json {
  if (isJsonObject(error)) return `${error.code}: ${error.message}`;
  const { body } = isJsonObject(response) ? response : {};
  if (!isJsonObject(body)) return null;
  if (!Array.isArray(body.choices)) return body.data ?? null;
  const texts = body.choices.filter(isJsonObject).map(({ message, text = null }) => {
    return isJsonObject(message) ? (message.content ?? null) : text;
  });
  return texts.length === 1 ? texts[0]! : texts;
}

/**
 * The response to a request that failed, for its line or its caller. The status and the error that
 * a server gave stay as they were; what the error lacks is filled in.
 */
export function failedResponse({ code, message, field, server }: FailedRequest): {
  status: number;
  error: JsonObject;
} {
  const isRequestFault = isFaultOfRequest(code);
  const type = isRequestFault ? "invalid_request_error" : "server_error";
  const param = (isRequestFault && field?.replace(/^body\./, "")) || null;
  const { status: given = statusOf(code), ...said } = server ?? {};
  // Some servers fail where a prompt is too long: nobody should send it again.
  const status = isRequestFault && given >= 500 ? statusOf(code) : given;
  return { status, error: { message, type, param, code: nameOf(code), ...said } };
}

function nameOf(code: string): string {
  return (isFaultOfRequest(code) && rowOf(code)?.openai?.[2]) || code.toLowerCase();
}

/** Whether another request would be answered. */
export function isFaultOfRequest(code: string): boolean {
  return rowOf(code)?.isOfRequest ?? false;
}

function statusOf(code: string): number {
  const isNamed = code === "TIMEOUT" || isFaultOfRequest(code);
  return (isNamed && rowOf(code)?.openai?.[0]) || 500;
}

const rowOf = (code: string) => wireTable[code as ErrorCode];
