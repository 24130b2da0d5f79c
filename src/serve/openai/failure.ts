import type { FastifyReply } from "fastify";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import {
  failedResponse,
  isFaultOfRequest,
  requestFaults,
} from "../../run/openai-batch/batch-lines.ts";
import { wordsForCallers } from "../words-for-callers.ts";

/** OpenAI's name of an error's kind, and its HTTP status. */
export type Kind = readonly [status: number, type: string, code?: string];

const invalid: Kind = [400, "invalid_request_error"];
const limited: Kind = [429, "rate_limit_error", "rate_limit_exceeded"];
const unavailable: Kind = [503, "server_error", "service_unavailable"];
const badGateway: Kind = [502, "server_error", "bad_gateway"];

/** As in the lines of a batch. */
const faults = Object.entries(requestFaults).map(([code, name]): [ErrorCode, Kind] => {
  const { status } = failedResponse({ code, message: "" });
  return [code as ErrorCode, [status, "invalid_request_error", name]];
});

/** Errors that are the caller's, or the moment's; all others are the server's. */
export const kinds: Partial<Record<ErrorCode, Kind>> = {
  ...(Object.fromEntries(faults) as Partial<Record<ErrorCode, Kind>>),
  REQUEST_INVALID: invalid,
  UNSUPPORTED: invalid,
  AUDIO_INVALID: invalid,
  LANGUAGE_UNKNOWN: invalid,
  COLUMN_INVALID: invalid,
  ROW_KILLS_ENGINE: invalid,
  BODY_TOO_LARGE: [413, "invalid_request_error", "request_too_large"],
  TOKEN_INVALID: [401, "invalid_request_error", "invalid_api_key"],
  TOKEN_FORBIDDEN: [403, "invalid_request_error", "insufficient_permissions"],
  ROUTE_UNKNOWN: [404, "invalid_request_error", "unknown_url"],
  MODEL_NOT_SERVED: [404, "invalid_request_error", "model_not_found"],
  FILE_UNKNOWN: [404, "invalid_request_error"],
  BATCH_UNKNOWN: [404, "invalid_request_error"],
  BATCH_OVER: [409, "invalid_request_error"],
  BATCH_UNFINISHED: [404, "invalid_request_error"],
  RANGE_INVALID: [416, "invalid_request_error"],
  QUEUE_FULL: limited,
  DEADLINE_EXCEEDED: limited,
  REQUEST_TIMED_OUT: [504, "server_error", "timeout"],
  SERVER_STOPPING: unavailable,
  WORKERS_MISSING: unavailable,
  ENGINE_DIED: unavailable,
  ENGINE_STALLED: unavailable,
  ENDPOINT_DOWN: unavailable,
  TIMEOUT: [504, "server_error", "timeout"],
  SERVER_ERROR: badGateway,
  CONNECTION_LOST: badGateway,
  RESPONSE_MALFORMED: badGateway,
  ANSWER_EMPTY: badGateway,
  AUTHENTICATION_FAILED: badGateway,
  ENDPOINT_UNUSABLE: badGateway,
  ENDPOINT_PATH_UNKNOWN: badGateway,
  MODEL_UNKNOWN: badGateway,
};

/** The error of a field that must be something else. */
export function wrong(field: string, must: string): SluiceError {
  return new SluiceError("PARAMETER_INVALID", `it must be ${must}`, { field });
}

/** The body of an error, in OpenAI's shape. */
export function errorBody(error: SluiceError): JsonObject {
  const { code: name, place, server } = error;
  const { field } = place;
  // The body is all that the caller of an address sees of a batch's line.
  const said = error.message.replace("(field body.", "(field ");
  if (isFaultOfRequest(name)) {
    return { error: failedResponse({ code: name, message: said, field, server }).error };
  }
  const [, type, code = null] = kindOf(error);
  const param = field?.replace(/^body\./, "") ?? null;
  return { error: { message: wordsForCallers[name] ?? said, type, param, code } };
}

/** Answers a request with an error, in OpenAI's shape. */
export function writeFailure(error: SluiceError, reply: FastifyReply): void {
  const [status] = kindOf(error);
  const isOfRequest = isFaultOfRequest(error.code);
  if (!isOfRequest && (status === 429 || status === 503)) {
    const seconds = Math.max(1, Math.ceil((error.retryAfterMs ?? 1000) / 1000));
    void reply.header("retry-after", String(seconds));
  }
  // OpenAI's clients would try it again otherwise.
  const isRetried = status === 408 || status === 409 || status === 429 || status >= 500;
  const isInVain = isOfRequest || status === 409 || (status === 502 && !error.retryable);
  if (isRetried && isInVain) void reply.header("x-should-retry", "false");
  void reply.status(status).send(errorBody(error));
}

function kindOf({ code, message, scope, server }: SluiceError): Kind {
  if (isFaultOfRequest(code)) {
    const { status } = failedResponse({ code, message, server });
    return [status, "invalid_request_error", requestFaults[code]];
  }
  if (code === "ENDPOINT_DOWN" && server?.status === 429) return limited;
  // With 503, a row of a batch whose answer is always wrong would be sent until the batch ends.
  const serverError = scope === "engine" ? 503 : 500;
  return kinds[code] ?? [serverError, "server_error"];
}
