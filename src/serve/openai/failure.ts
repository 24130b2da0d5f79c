import type { FastifyReply } from "fastify";
import { SluiceError } from "../../foundation/errors.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { wireTable } from "../../foundation/wire-table.ts";
import { failedResponse, isFaultOfRequest } from "../../run/openai-batch/batch-lines.ts";

/** The error of a field that must be something else. */
export function wrong(field: string, must: string): SluiceError {
  return new SluiceError("PARAMETER_INVALID", `it must be ${must}`, { field });
}

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
  return { error: { message: wireTable[name]?.words ?? said, type, param, code } };
}

/** Answers a request with an error, in OpenAI's shape. */
export function writeFailure(error: SluiceError, reply: FastifyReply): void {
  const [status] = kindOf(error);
  const isOfRequest = isFaultOfRequest(error.code);
  const isForLater = status === 429 || status === 503 || error.retryAfterMs !== undefined;
  if (!isOfRequest && isForLater) {
    const seconds = Math.max(1, Math.ceil((error.retryAfterMs ?? 1000) / 1000));
    void reply.header("retry-after", String(seconds));
  }
  // OpenAI's clients would try it again otherwise.
  const isRetried = status === 408 || status === 409 || status === 429 || status >= 500;
  const isInVain = isOfRequest || status === 409 || (status === 502 && !error.retryable);
  if (isRetried && isInVain) void reply.header("x-should-retry", "false");
  void reply.status(status).send(errorBody(error));
}

function kindOf({ code, message, scope, server }: SluiceError) {
  const isLimited = code === "ENDPOINT_DOWN" && server?.status === 429;
  // With 503, a row of a batch whose answer is always wrong would be sent until the batch ends.
  const others = [scope === "engine" ? 503 : 500, "server_error"] as const;
  const [status, ...named] = wireTable[isLimited ? "QUEUE_FULL" : code]?.openai ?? others;
  if (!isFaultOfRequest(code)) return [status, ...named] as const;
  return [failedResponse({ code, message, server }).status, ...named] as const;
}
