import { SluiceError } from "../../foundation/errors.ts";

/** What a failed request comes to. */
export type S3Fault =
  /** There is no such object. */
  | "absent"
  /** The condition of the request does not hold. */
  | "condition"
  /** Another conditional write of the same key was under way: nobody knows yet. */
  | "conflict"
  /** It may go well a moment later, and may have been carried out. */
  | "transient"
  | "full"
  | "refused";

interface Thrown {
  name?: string;
  message?: string;
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

/** Answers below 500 that another try may change. */
const transientNames = new Set([
  "BadDigest",
  "ExpiredToken",
  "IncompleteBody",
  "InternalError",
  "OperationAborted",
  "RequestTimeTooSkewed",
  "RequestTimeout",
  "RequestTimeoutException",
  "SlowDown",
  "ThrottlingException",
  "TimeoutError",
  "TooManyRequestsException",
  "TruncatedReply",
  "XAmzContentSHA256Mismatch",
]);
const transientCodes = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EPIPE",
  "ERR_STREAM_PREMATURE_CLOSE",
  "ETIMEDOUT",
]);
const transientMessage = /aborted|socket hang up|checksum mismatch|premature close/i;
const fullNames = new Set(["QuotaExceeded", "XMinioStorageFull", "StorageFull"]);

/** What a thrown value of the library comes to. */
export function faultOf(thrown: unknown): S3Fault {
  const { name = "", message = "", code = "", $metadata } = thrown as Thrown;
  const status = $metadata?.httpStatusCode;
  if (fullNames.has(name) || status === 507) return "full";
  if (name === "ConditionalRequestConflict" || (status === 409 && name === "OperationAborted")) {
    return "conflict";
  }
  if (transientNames.has(name)) return "transient";
  if (status === 412) return "condition";
  if (status === 404) return name === "NoSuchBucket" ? "refused" : "absent";
  if (status !== undefined && (status >= 500 || status === 408 || status === 429)) {
    return "transient";
  }
  const isLost = transientCodes.has(code) || transientMessage.test(message);
  // With a status below 300 the reply began well and broke off.
  return isLost && (status === undefined || status < 300) ? "transient" : "refused";
}

/** True for what another try may change. */
export function isTransient(thrown: unknown): boolean {
  const fault = faultOf(thrown);
  return fault === "transient" || fault === "conflict";
}

/** Any failure of a request as the `SluiceError` that `Storage` promises. */
export function storeErrorOf(thrown: unknown, location: string): SluiceError {
  if (thrown instanceof SluiceError) return thrown;
  const { name = "Error", message = "", $metadata } = thrown as Thrown;
  const fault = faultOf(thrown);
  // What the library throws holds the request, and with it a token: only its words go on.
  const cause = new Error(`${name}: ${message}`);
  const options = { file: location, cause };
  if (fault === "absent") return new SluiceError("NOT_FOUND", "", options);
  if (fault === "full") return new SluiceError("STORE_FULL", name, options);
  const said = message && message !== "UnknownError" ? `${name}: ${message}` : name;
  const status = $metadata?.httpStatusCode;
  const detail = status === undefined ? said : `${said} (status ${status})`;
  return new SluiceError("STORE_FAILED", detail, { ...options, ...hintFor(name, status) });
}

function hintFor(name: string, status: number | undefined): { hint?: string } {
  if (name === "CredentialsProviderError") {
    const names = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role";
    return { hint: `no credentials were found: give ${names}` };
  }
  if (name === "NoSuchBucket") return { hint: "make the bucket first, or mend its name" };
  if (status === 401 || status === 403 || /Token|AccessKey|Signature/.test(name)) {
    return { hint: "check the credentials, and what they may do in this bucket" };
  }
  if (status === 301 || status === 400) {
    return { hint: "check store.region and store.endpoint" };
  }
  return {};
}
