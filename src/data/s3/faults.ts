import { SluiceError } from "../../foundation/errors.ts";

/** The meaning of a failed request. */
export type S3Fault =
  /** The object does not exist. */
  | "absent"
  /** The condition of the request does not hold. */
  | "condition"
  /** Another conditional write of the same key was in progress: the outcome is open. */
  | "conflict"
  /** It may succeed later, and may have been carried out. */
  | "transient"
  | "full"
  | "refused";

interface Thrown {
  name?: string;
  message?: string;
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

/** Error names with statuses below 500 that another try may change. */
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

/** The meaning of a value that the library threw. */
export function faultOf(thrown: unknown): S3Fault {
  const { name = "", message = "", code = "", $metadata } = thrown as Thrown;
  const status = $metadata?.httpStatusCode;
  if (fullNames.has(name) || status === 507) return "full";
  if (name === "ConditionalRequestConflict" || (status === 409 && name === "OperationAborted")) {
    return "conflict";
  }
  if (transientNames.has(name)) return "transient";
  if (status === 501) return "refused";
  if (status === 412) return "condition";
  // Some stores answer 404 for a bucket or access key that they do not know.
  if (status === 404) return /Bucket|AccessKey|User/.test(name) ? "refused" : "absent";
  if (status !== undefined && (status >= 500 || status === 408 || status === 429)) {
    return "transient";
  }
  const isLost = transientCodes.has(code) || transientMessage.test(message);
  // A status below 300 means that the reply began well and broke off.
  return isLost && (status === undefined || status < 300) ? "transient" : "refused";
}

/** True if another try may succeed. */
export function isTransient(thrown: unknown): boolean {
  const fault = faultOf(thrown);
  return fault === "transient" || fault === "conflict";
}

/** Any failure of a request as the `SluiceError` that `Storage` promises. */
export function storeErrorOf(thrown: unknown, location: string): SluiceError {
  if (thrown instanceof SluiceError) return thrown;
  const { name = "Error", message = "", $metadata } = thrown as Thrown;
  const fault = faultOf(thrown);
  // The library's error holds the request, and with it credentials: only its words are kept.
  const cause = new Error(`${name}: ${message}`);
  const options = { file: location, cause };
  if (fault === "absent") return new SluiceError("NOT_FOUND", "", options);
  if (fault === "full") return new SluiceError("STORE_FULL", name, options);
  const said = message && message !== "UnknownError" ? `${name}: ${message}` : name;
  const status = $metadata?.httpStatusCode;
  const shown = status === undefined ? said : `${said} (status ${status})`;
  const found = reasons.find(({ matches }) => matches(thrown as Thrown));
  if (found === undefined) return new SluiceError("STORE_FAILED", shown, options);
  const hint = typeof found.hint === "string" ? found.hint : found.hint(message);
  const detail = `${found.reason}: ${shown}`;
  return new SluiceError("STORE_FAILED", detail, {
    file: location,
    hint,
    cause: new Error(detail),
  });
}

interface Reason {
  matches(thrown: Thrown): boolean;
  reason: string;
  hint: string | ((message: string) => string);
}

const named =
  (...names: string[]) =>
  ({ name = "", code = "" }: Thrown) =>
    names.includes(name) || names.includes(code);
const answered =
  (...statuses: number[]) =>
  ({ $metadata }: Thrown) =>
    statuses.includes($metadata?.httpStatusCode ?? 0);

/** What causes a fault, and what to do about it; the first match counts. */
const reasons: readonly Reason[] = [
  {
    matches: named("CredentialsProviderError"),
    reason: "no credentials were found",
    hint: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run under a role",
  },
  {
    matches: ({ name = "" }) => /AccessKeyI[dD]$|NoSuchAccessKey|UserNotFound/.test(name),
    reason: "the store does not know the access key",
    hint: "check AWS_ACCESS_KEY_ID, or the profile in AWS_PROFILE, and that the key is for this store (store.endpoint)",
  },
  {
    matches: named("SignatureDoesNotMatch"),
    reason: "the secret key does not belong to the access key",
    hint: "check AWS_SECRET_ACCESS_KEY",
  },
  {
    matches: named("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
    reason: "the credentials have expired",
    hint: "get new credentials, then run the same command again",
  },
  {
    matches: named("InvalidToken", "InvalidClientTokenId"),
    reason: "the session token is not valid",
    hint: "check AWS_SESSION_TOKEN: it must come with the two keys, or be unset",
  },
  {
    matches: named("RequestTimeTooSkewed", "RequestExpired"),
    reason: "the clock of this machine is wrong",
    hint: "set the clock of this machine, then run the same command again",
  },
  {
    matches: named("NoSuchBucket"),
    reason: "the bucket does not exist",
    hint: "create the bucket, or correct its name",
  },
  {
    matches: (thrown) =>
      answered(301)(thrown) ||
      named(
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
      )(thrown),
    reason: "the bucket is in another region",
    hint(message) {
      const [, region] = /expecting ['"]?([a-z0-9-]+)/.exec(message) ?? [];
      return `set store.region, or AWS_REGION, to ${region ?? "the region of the bucket"}`;
    },
  },
  {
    matches: named("AccessDenied", "AllAccessDisabled", "AccountProblem"),
    reason: "the credentials may not do this",
    hint: "allow them to list, read, write and delete in this bucket, or use others",
  },
  {
    matches: answered(401, 403),
    reason: "the store refused the credentials",
    hint: "check the credentials, and what they may do in this bucket",
  },
  {
    matches: named("ENOTFOUND", "EAI_AGAIN"),
    reason: "the address of the store is not known",
    hint: "check store.endpoint (or AWS_ENDPOINT_URL_S3) and the network",
  },
  {
    matches: (thrown) => transientCodes.has(thrown.code ?? "") || named("TimeoutError")(thrown),
    reason: "the store does not answer",
    hint: "check store.endpoint (or AWS_ENDPOINT_URL_S3) and the network, then run the same command again",
  },
  {
    matches: ({ code = "" }) => /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code),
    reason: "the certificate of the store is not trusted",
    hint: "name the certificate of its authority in NODE_EXTRA_CA_CERTS",
  },
  {
    matches: answered(400),
    reason: "the store does not accept the request",
    hint: "check store.region, store.endpoint and store.pathStyle",
  },
];
