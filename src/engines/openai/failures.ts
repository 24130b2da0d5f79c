import { demandedWaitMs } from "../../foundation/backoff.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { type ServerFault, SluiceError, withTexts } from "../../foundation/errors.ts";
import { isJsonObject, jsonObjectIn } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { tunnelCodes } from "../../foundation/proxy-tunnel.ts";
import { shownText } from "../../foundation/shown-path.ts";
import type { EndpointFailure } from "./breaker.ts";
import type { HttpReply, TransportError } from "./transport.ts";

/** A failure of one request, or of the endpoint: then the request has cost no try. */
export type Failure =
  | { of: "request"; error: SluiceError }
  | { of: "endpoint"; failure: EndpointFailure };

const maxDetailCharacters = 500;
/** Longest text that is kept of a server's error. */
const maxServerCharacters = 4000;

/** Waiting does not fix a certificate. */
const certificateCodes = /^(ERR_TLS_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH)/;

const tooLong =
  /context_length_exceeded|exceed_context_size|maximum context length|exceeds the available context/i;
const unknownModel =
  /model_not_found|no such model|model\b.{0,200}?\b(not found|does not exist|not exist|unknown)/is;
/** Messages that refuse one prompt, with a status that otherwise means the credentials. */
const refusedContent = /moderation|flagged|content.?policy/i;
/** Messages with 429 if waiting does not help: about the account, or about a single request. */
const quotaUsedUp = /insufficient_quota|insufficient.balance|exceeded your current quota/i;
const requestTooLarge = /request too large/i;

const hints: Partial<Record<ErrorCode, string>> = {
  PROMPT_TOO_LONG: "shorten the prompt, or serve the model with a larger context",
  MODEL_UNKNOWN: "ask the server for its models: GET <baseUrl>/models",
};

const codesByStatus: Record<number, ErrorCode> = {
  401: "AUTHENTICATION_FAILED",
  402: "ENDPOINT_UNUSABLE",
  403: "AUTHENTICATION_FAILED",
  404: "ENDPOINT_PATH_UNKNOWN",
  405: "ENDPOINT_PATH_UNKNOWN",
  408: "TIMEOUT",
  409: "SERVER_ERROR",
  425: "SERVER_ERROR",
};

/**
 * Names the failures of one endpoint. Every text of a server passes through `redact` first, so that
 * a repeated key is in no message.
 */
export class FailureReader {
  readonly #secrets: readonly string[];
  readonly #now: () => number;
  readonly #maxWaitMs: number;

  /**
   * @param secrets texts that messages must not contain.
   * @param now wall time, for Retry-After as a date.
   * @param maxWaitMs longest wait that an endpoint may demand; `limits` have a longest one as well.
   */
  constructor(secrets: readonly string[], now: () => number, maxWaitMs = Number.POSITIVE_INFINITY) {
    this.#secrets = secrets.filter((secret) => secret !== "");
    this.#now = now;
    this.#maxWaitMs = maxWaitMs;
  }

  /** `text` without the secrets, on one line, cut to a readable length. */
  redact(text: string): string {
    return this.#clean(text).replace(/\s+/g, " ").trim().slice(0, maxDetailCharacters);
  }

  #clean(text: string): string {
    let clean = text;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, "[redacted]");
    return clean;
  }

  /** What the server said in a reply with a status other than 2xx. */
  faultIn({ status, text }: HttpReply): ServerFault {
    const kept = (member: string) => shownText(this.#clean(member)).slice(0, maxServerCharacters);
    return withTexts({ status, ...errorIn(text) }, kept);
  }

  ofTransport(error: TransportError): Failure {
    const message = this.redact(error.message);
    switch (error.kind) {
      case "unreachable":
        if (certificateCodes.test(error.code)) {
          return request("ENDPOINT_UNUSABLE", message, { hint: certificateHint });
        }
        if (error.code === tunnelCodes.refused) {
          return request("ENDPOINT_UNUSABLE", message, { hint: proxyHint });
        }
        return { of: "endpoint", failure: { message } };
      case "timeout":
        return request("TIMEOUT", message);
      case "lost":
        return request("CONNECTION_LOST", message);
      case "garbled":
        return request("RESPONSE_MALFORMED", message);
    }
  }

  /**
   * The error for a reply with a status other than 2xx.
   *
   * @param mayLackPath a path that the server lacks is a fault of the request alone.
   */
  ofStatus(reply: HttpReply, mayLackPath = false): Failure {
    const { status } = reply;
    const server = this.faultIn(reply);
    const said = this.redact(saidIn(server) ?? reply.text);
    const message = said === "" ? `status ${status}` : `status ${status}: ${said}`;
    const demanded = (maxMs: number) =>
      demandedWaitMs(reply.headers, this.#now(), Math.min(maxMs, this.#maxWaitMs));
    const pauseMs = demanded(limits.maxEndpointPauseMs);
    if (status === 429) {
      if (quotaUsedUp.test(reply.text)) {
        return request("ENDPOINT_UNUSABLE", message, { hint: quotaHint, server });
      }
      if (requestTooLarge.test(reply.text)) return request("REQUEST_REFUSED", message, { server });
      return { of: "endpoint", failure: { message, retryAfterMs: pauseMs, server } };
    }
    if (status === 503 && pauseMs !== undefined) {
      return { of: "endpoint", failure: { message, retryAfterMs: pauseMs, server } };
    }
    if (status === 407) return request("ENDPOINT_UNUSABLE", message, { hint: proxyHint, server });
    const found = codeOf(status, reply.text);
    const code = mayLackPath && found === "ENDPOINT_PATH_UNKNOWN" ? "REQUEST_REFUSED" : found;
    const retryAfterMs = demanded(limits.maxRetryAfterMs);
    return request(code, message, { hint: hints[code], retryAfterMs, server });
  }
}

const certificateHint =
  "correct the certificate, or set SSL_CERT_FILE to the certificate of its issuer, in PEM";
const proxyHint =
  "check the address, user and password in HTTPS_PROXY or HTTP_PROXY, or name the host in NO_PROXY";
const quotaHint = "check the quota of the account, then run the same command again";

function codeOf(status: number, text: string): ErrorCode {
  if (status !== 401 && status !== 403) {
    if (tooLong.test(text)) return "PROMPT_TOO_LONG";
    if (status < 500 && unknownModel.test(text)) return "MODEL_UNKNOWN";
  }
  if (status === 403 && refusedContent.test(text)) return "REQUEST_REFUSED";
  const code = codesByStatus[status];
  if (code) return code;
  if (status >= 500) return "SERVER_ERROR";
  return status >= 400 ? "REQUEST_REFUSED" : "ENDPOINT_PATH_UNKNOWN";
}

/** The error inside a reply's body, in the forms that servers use. */
function errorIn(text: string): Omit<ServerFault, "status"> {
  const body = jsonObjectIn(text);
  if (body === undefined) return {};
  const error = isJsonObject(body.error) ? body.error : body;
  const message = [error.message, body.error, body.detail].find((each) => typeof each === "string");
  const others = ["type", "param", "code"].filter((name) => {
    return error[name] === null || ["string", "number"].includes(typeof error[name]);
  });
  return {
    ...(message !== undefined && { message }),
    ...Object.fromEntries(others.map((name) => [name, error[name]])),
  };
}

/** The message of a server, with its code if the message does not have it. */
function saidIn({ message, code }: ServerFault): string | undefined {
  if (message === undefined || typeof code !== "string" || message.includes(code)) return message;
  return `${message} (${code})`;
}

function request(
  code: ErrorCode,
  message: string,
  options: { hint?: string; retryAfterMs?: number; server?: ServerFault } = {},
): Failure {
  return { of: "request", error: new SluiceError(code, message, options) };
}
