import { SluiceError } from "../../../foundation/errors.ts";
import {
  isJsonObject,
  type Json,
  type JsonObject,
  jsonObjectIn,
} from "../../../foundation/json.ts";
import type { FailureReader } from "../failures.ts";
import { malformed } from "../reply.ts";

/** A batch, as its provider describes it. */
export interface ProviderBatch {
  id: string;
  /** `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelled`, … */
  status: string;
  /** Seconds since 1970, by the provider's clock. */
  createdAt: number;
  inputFile: string;
  outputFile: string | undefined;
  errorFile: string | undefined;
  counts: { total: number; completed: number; failed: number };
  /** Why it failed. */
  errors: readonly BatchFault[];
  metadata: Readonly<Record<string, Json>>;
}

/** One reason why a batch failed. */
export interface BatchFault {
  code: string;
  message: string;
  /** Line of its file, from 1, if the reason is there. */
  line: number | undefined;
}

/**
 * A batch from a provider's JSON.
 * @throws SluiceError `RESPONSE_MALFORMED`.
 */
export function readBatch(body: JsonObject): ProviderBatch {
  const { id, status, created_at: createdAt, request_counts: counts, errors, metadata } = body;
  if (!isId(id) || typeof status !== "string") throw malformed("it is not a batch");
  const faults = isJsonObject(errors) && Array.isArray(errors.data) ? errors.data : [];
  const count = (name: string) => numberOf(isJsonObject(counts) ? counts[name] : undefined);
  return {
    ...{
      id,
      status: stateWord.test(status) ? status : "unknown",
      createdAt: numberOf(createdAt),
      inputFile: textOf(body.input_file_id) ?? "",
    },
    outputFile: textOf(body.output_file_id),
    errorFile: textOf(body.error_file_id),
    counts: { total: count("total"), completed: count("completed"), failed: count("failed") },
    errors: faults.filter(isJsonObject).map(({ code, message, line }) => ({
      code: textOf(code) ?? "",
      message: textOf(message) ?? "",
      line: typeof line === "number" ? line : undefined,
    })),
    metadata: isJsonObject(metadata) ? metadata : {},
  };
}

/** A state, as people see it on their terminals. */
const stateWord = /^\w{1,40}$/;
const idText = /^[\w.:-]{1,256}$/;

function isId(value: Json | undefined): value is string {
  return typeof value === "string" && idText.test(value);
}

/** A page of batches; errors as `readBatch`. */
export function readList({ data, has_more: hasMore }: JsonObject) {
  if (!Array.isArray(data)) throw malformed("it is not a list");
  return { batches: data.filter(isJsonObject).map(readBatch), hasMore: hasMore === true };
}

/** The id of an uploaded file, and the provider's time of its creation; errors as `readBatch`. */
export function readFileObject({ id, created_at: createdAt }: JsonObject) {
  if (!isId(id)) throw malformed("it is not a file");
  return { id, createdAt: numberOf(createdAt) };
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function numberOf(value: Json | undefined): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

/** A line of a file of results. */
type ResultLine = { id: string } & ({ body: JsonObject } | { error: SluiceError });

/**
 * Reads a line of a file of answers or of errors. Undefined for a line without a request's id.
 *
 * A refused request has a status and a body like the reply to a single request, in whichever file;
 * one that was never sent has an error and no response.
 */
export function readResultLine(line: Buffer, failures: FailureReader): ResultLine | undefined {
  const value = jsonObjectIn(line.toString());
  if (typeof value?.custom_id !== "string") return undefined;
  const { custom_id: id, response = null, error = null } = value;
  if (!isJsonObject(response) || typeof response.status_code !== "number") {
    return { id, error: unsent(error, failures) };
  }
  const { status_code: status, body = null } = response;
  const isGood = status >= 200 && status < 300;
  if (isGood && isJsonObject(body)) return { id, body };
  // Some servers put the reason beside the response instead of into its body.
  const text = JSON.stringify(body ?? { error });
  if (isGood) return { id, error: new SluiceError("RESPONSE_MALFORMED", failures.redact(text)) };
  return { id, error: ofStatus(status, text, failures) };
}

/** The error of a request for which its batch failed, before any was sent. */
export function ofFault({ code, message }: BatchFault, failures: FailureReader): SluiceError {
  return ofStatus(400, JSON.stringify({ error: { code, message } }), failures);
}

function ofStatus(status: number, text: string, failures: FailureReader): SluiceError {
  const reply = { status, headers: {}, text };
  const failure = failures.ofStatus(reply);
  if (failure.of === "request") return failure.error;
  const server = failures.faultIn(reply);
  return new SluiceError("SERVER_ERROR", failure.failure.message, { server });
}

/** `batch_expired`, `batch_cancelled`, or whatever else kept a provider from sending it. */
function unsent(error: Json, failures: FailureReader): SluiceError {
  const { code = "", message = "" } = isJsonObject(error) ? error : {};
  const said = [message, code].filter((each) => typeof each === "string" && each !== "");
  return new SluiceError("BATCH_INCOMPLETE", failures.redact(said.join(", ")));
}
