import type { ErrorCode } from "./error-table.ts";

/** What `sluice serve` answers for an error, on each of its wires. */
interface WireRow {
  /** On OpenAI's wire; without it, the type is `server_error`, with 503 for an engine, else 500. */
  openai?: readonly [status: number, type: string, code?: string | undefined];
  /**
   * On TorchServe's wire, with other words than the error's own; without it, the type is
   * `InternalServerException`, with 503 if the error is retryable, else 500.
   */
  torchserve?: readonly [status: number, type: string, words?: string];
  /** On both, where the error's own words, such as an address, are for the operator alone. */
  words?: string;
  /** Whether the request itself is at fault: in lines of batches, too. */
  isOfRequest?: true;
}

const invalid = (status: number, code?: string) => [status, "invalid_request_error", code] as const;
const limited = [429, "rate_limit_error", "rate_limit_exceeded"] as const;
const unavailable = [503, "server_error", "service_unavailable"] as const;
const tookTooLong = [504, "server_error", "timeout"] as const;

const internal = "InternalServerException";
const badRequest = [400, "BadRequestException"] as const;
const serviceUnavailable = [503, "ServiceUnavailableException"] as const;
const workerDied = [500, internal, "Worker died."] as const;
const invalidKey = [
  400,
  "InvalidKeyException",
  "Token Authorization failed. Token either incorrect, expired, or not provided correctly",
] as const;

/** The fault of a request, by OpenAI's name. */
const fault = (code: string, more: Pick<WireRow, "torchserve"> = {}, status = 400): WireRow => ({
  ...{ openai: invalid(status, code), isOfRequest: true, ...more },
});
const behind = (words: string): WireRow => ({
  openai: [502, "server_error", "bad_gateway"],
  words: `the server behind this model ${words}`,
});
const failed = behind("failed");
const refused = behind("refuses what this server sends; the log of this server says why");

/** Errors that are the caller's, or the moment's, and those with words of their own on a wire. */
export const wireTable: Readonly<Partial<Record<ErrorCode, WireRow>>> = {
  JSON_INVALID: fault("invalid_json_line"),
  ROW_NOT_OBJECT: fault("invalid_json_line"),
  PARAMETER_MISSING: fault("missing_required_parameter", { torchserve: badRequest }),
  PARAMETER_INVALID: fault("invalid_value", { torchserve: badRequest }),
  ID_INVALID: fault("invalid_value"),
  PARAMETER_UNSUPPORTED: fault("unsupported_parameter", { torchserve: badRequest }),
  URL_UNSUPPORTED: fault("invalid_url"),
  PROMPT_TOO_LONG: fault("context_length_exceeded", { torchserve: badRequest }),
  REQUEST_REFUSED: fault("invalid_request"),
  STRUCTURE_REFUSED: fault("invalid_request"),
  MODEL_DIFFERS: fault("model_not_found", {}, 404),
  REQUEST_INVALID: { openai: invalid(400), torchserve: badRequest },
  UNSUPPORTED: { openai: invalid(400), torchserve: badRequest },
  AUDIO_INVALID: { openai: invalid(400) },
  LANGUAGE_UNKNOWN: { openai: invalid(400) },
  COLUMN_INVALID: { openai: invalid(400) },
  PATTERN_TOO_SLOW: { openai: invalid(400), torchserve: badRequest },
  ROW_KILLS_ENGINE: { openai: invalid(400), torchserve: badRequest },
  BODY_TOO_LARGE: { openai: invalid(413, "request_too_large") },
  TOKEN_INVALID: { openai: invalid(401, "invalid_api_key"), torchserve: invalidKey },
  ORIGIN_REFUSED: { openai: invalid(403, "origin_refused"), torchserve: invalidKey },
  TOKEN_FORBIDDEN: { openai: invalid(403, "insufficient_permissions"), torchserve: invalidKey },
  ROUTE_UNKNOWN: {
    openai: invalid(404, "unknown_url"),
    torchserve: [
      404,
      "ResourceNotFoundException",
      "Requested resource is not found, please refer to API document.",
    ],
  },
  MODEL_NOT_SERVED: { openai: invalid(404, "model_not_found") },
  FILE_UNKNOWN: { openai: invalid(404) },
  BATCH_UNKNOWN: { openai: invalid(404) },
  BATCH_OVER: { openai: invalid(409) },
  BATCH_UNFINISHED: { openai: invalid(404) },
  RANGE_INVALID: { openai: invalid(416) },
  QUEUE_FULL: { openai: limited },
  DEADLINE_EXCEEDED: { openai: limited },
  REQUEST_TIMED_OUT: { openai: tookTooLong, torchserve: [504, internal] },
  SERVER_STOPPING: { openai: unavailable, torchserve: serviceUnavailable },
  WORKERS_MISSING: { openai: unavailable },
  MODEL_LOADING: { openai: unavailable },
  ENGINE_DIED: { openai: unavailable, torchserve: workerDied },
  ENGINE_STALLED: { openai: unavailable, torchserve: workerDied },
  ENGINE_START_FAILED: { openai: unavailable, torchserve: workerDied },
  ROW_STALLS_WORKER: { torchserve: workerDied },
  ENDPOINT_DOWN: { ...behind("takes no requests now"), openai: unavailable },
  TIMEOUT: { ...behind("took too long"), openai: tookTooLong },
  SERVER_ERROR: failed,
  CONNECTION_LOST: { ...failed, torchserve: serviceUnavailable },
  RESPONSE_MALFORMED: failed,
  ANSWER_EMPTY: failed,
  AUTHENTICATION_FAILED: refused,
  ENDPOINT_UNUSABLE: refused,
  ENDPOINT_PATH_UNKNOWN: refused,
  MODEL_UNKNOWN: refused,
  ARCHIVE_INVALID: { torchserve: [400, "InvalidModelException"] },
  RESULTS_MISCOUNTED: { torchserve: [503, internal, "number of batch response mismatched"] },
  PREDICTION_FAILED: { torchserve: [503, internal, "Prediction failed"] },
  OUT_OF_MEMORY: { torchserve: [507, internal, "Out of resources"] },
};
