import type { FastifyReply } from "fastify";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { unsentStatus } from "../batches/error-lines.ts";

/** OpenAI's name of an error's kind, and its HTTP status. */
export type Kind = readonly [status: number, type: string, code?: string];

const invalid: Kind = [400, "invalid_request_error"];

/** Errors that are the caller's, or the moment's; all others are the server's. */
export const kinds: Partial<Record<ErrorCode, Kind>> = {
  REQUEST_INVALID: invalid,
  PARAMETER_INVALID: invalid,
  PARAMETER_MISSING: [400, "invalid_request_error", "missing_required_parameter"],
  PARAMETER_UNSUPPORTED: invalid,
  URL_UNSUPPORTED: invalid,
  UNSUPPORTED: invalid,
  REQUEST_REFUSED: invalid,
  AUDIO_INVALID: invalid,
  LANGUAGE_UNKNOWN: invalid,
  COLUMN_INVALID: invalid,
  ROW_KILLS_ENGINE: invalid,
  PROMPT_TOO_LONG: [400, "invalid_request_error", "context_length_exceeded"],
  BODY_TOO_LARGE: [413, "invalid_request_error", "request_too_large"],
  TOKEN_INVALID: [401, "invalid_request_error", "invalid_api_key"],
  TOKEN_FORBIDDEN: [403, "invalid_request_error", "insufficient_permissions"],
  ROUTE_UNKNOWN: [404, "invalid_request_error", "unknown_url"],
  MODEL_NOT_SERVED: [404, "invalid_request_error", "model_not_found"],
  FILE_UNKNOWN: [404, "invalid_request_error"],
  BATCH_UNKNOWN: [404, "invalid_request_error"],
  BATCH_OVER: [409, "invalid_request_error"],
  BATCH_UNFINISHED: [404, "invalid_request_error"],
  BATCH_EXPIRED: [unsentStatus, "invalid_request_error", "batch_expired"],
  BATCH_CANCELED: [unsentStatus, "invalid_request_error", "batch_cancelled"],
  RANGE_INVALID: [416, "invalid_request_error"],
  QUEUE_FULL: [429, "rate_limit_error", "rate_limit_exceeded"],
  DEADLINE_EXCEEDED: [429, "rate_limit_error", "rate_limit_exceeded"],
  REQUEST_TIMED_OUT: [504, "server_error", "timeout"],
  SERVER_STOPPING: [503, "server_error", "service_unavailable"],
  WORKERS_MISSING: [503, "server_error", "service_unavailable"],
  ENGINE_DIED: [503, "server_error", "service_unavailable"],
  CONNECTION_LOST: [503, "server_error", "service_unavailable"],
};

/** The error of a field that must be something else. */
export function wrong(field: string, must: string): SluiceError {
  return new SluiceError("PARAMETER_INVALID", `it must be ${must}`, { field });
}

/** The body of an error, in OpenAI's shape. */
export function errorBody(error: SluiceError): JsonObject {
  const [, type, code = null] = kindOf(error);
  const param = error.place.field?.replace(/^body\./, "") ?? null;
  // The body is all that the caller of an address sees of a batch's line.
  const message = error.message.replace("(field body.", "(field ");
  return { error: { message, type, param, code } };
}

/** Answers a request with an error, in OpenAI's shape. */
export function writeFailure(error: SluiceError, reply: FastifyReply): void {
  const [status] = kindOf(error);
  if (status === 429 || status === 503) {
    const seconds = Math.ceil((error.retryAfterMs ?? 1000) / 1000);
    void reply.header("retry-after", String(seconds));
  }
  // OpenAI's clients would try it again otherwise.
  if (status === 409) void reply.header("x-should-retry", "false");
  void reply.status(status).send(errorBody(error));
}

function kindOf(error: SluiceError): Kind {
  const serverError = error.retryable ? 503 : 500;
  return kinds[error.code] ?? [serverError, "server_error"];
}
