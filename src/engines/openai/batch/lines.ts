import { SluiceError } from "../../../foundation/errors.ts";
import {
  isJsonObject,
  type Json,
  type JsonObject,
  jsonObjectIn,
} from "../../../foundation/json.ts";
import type { FailureReader } from "../failures.ts";
import type { BatchFault } from "./objects.ts";

/** A line of a file of results. */
export type ResultLine = { id: string } & ({ body: JsonObject } | { error: SluiceError });

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
