import { SluiceError } from "../../foundation/errors.ts";
import type { Environment } from "../../foundation/subprocess.ts";
import type { StoreOptions } from "./store-options.ts";

/** The place of an object, or of all objects below a prefix. */
export interface ObjectLocation {
  scheme: string;
  bucket: string;
  /** A key or a prefix of keys, without a leading slash; empty for the whole bucket. */
  key: string;
}

/** How to reach a bucket. */
export interface BucketSettings {
  /** Undefined: AWS's endpoint for the region. */
  endpoint: string | undefined;
  /** Undefined: the region of the profile. */
  region: string | undefined;
  isPathStyle: boolean;
  /** Undefined: found by the usual chain of AWS. */
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | undefined;
  /** Whether checksums are sent and requested even if the service does not demand them. */
  checksums: boolean;
}

const objectSchemes = ["s3", "r2", "gs"];
const locationPattern = /^([a-z0-9]+):\/\/([^/]*)\/*(.*)$/is;
const bucketPattern = /^[a-z0-9][a-z0-9._-]{1,221}$/i;

/** True for a scheme of object stores: `s3`, `r2` or `gs`. */
export function isObjectScheme(scheme: string | undefined): boolean {
  return scheme !== undefined && objectSchemes.includes(scheme);
}

/**
 * Splits a location into its parts.
 *
 * @throws SluiceError `USAGE` if it names no bucket.
 * @example
 * parseObjectLocation("s3://bucket/a/b"); // { scheme: "s3", bucket: "bucket", key: "a/b" }
 */
export function parseObjectLocation(location: string): ObjectLocation {
  const [, scheme = "", bucket = "", key = ""] = locationPattern.exec(location) ?? [];
  if (isObjectScheme(scheme.toLowerCase()) && bucketPattern.test(bucket)) {
    return { scheme: scheme.toLowerCase(), bucket, key };
  }
  throw new SluiceError("USAGE", `${location} names no bucket`, {
    hint: "write s3://BUCKET/PREFIX",
  });
}

/**
 * How to reach the buckets of a scheme: the job's options first, then the environment.
 *
 * @throws SluiceError `ENV_MISSING` if `r2:` has neither an endpoint nor an account.
 */
export function bucketSettings(
  scheme: string,
  options: StoreOptions,
  environment: Environment,
): BucketSettings {
  const own = scheme === "s3" ? awsPlace(environment) : foreignPlace(scheme, options, environment);
  const endpoint = options.endpoint ?? own.endpoint;
  return {
    endpoint,
    region: options.region ?? own.region ?? (endpoint === undefined ? undefined : "us-east-1"),
    isPathStyle: options.pathStyle ?? endpoint !== undefined,
    credentials: givenCredentials(environment),
    // Google signs no headers that its S3 interface does not know.
    checksums: scheme !== "gs",
  };
}

function awsPlace(environment: Environment): Pick<BucketSettings, "endpoint" | "region"> {
  return {
    endpoint: nonEmpty(environment.AWS_ENDPOINT_URL_S3) ?? nonEmpty(environment.AWS_ENDPOINT_URL),
    region: nonEmpty(environment.AWS_REGION) ?? nonEmpty(environment.AWS_DEFAULT_REGION),
  };
}

function foreignPlace(
  scheme: string,
  { endpoint }: StoreOptions,
  environment: Environment,
): Pick<BucketSettings, "endpoint" | "region"> {
  const region = "auto";
  if (scheme === "gs") return { endpoint: "https://storage.googleapis.com", region };
  const account = nonEmpty(environment.R2_ACCOUNT_ID) ?? environment.CLOUDFLARE_ACCOUNT_ID;
  if (account) return { endpoint: `https://${account}.r2.cloudflarestorage.com`, region };
  if (endpoint !== undefined) return { endpoint, region };
  throw new SluiceError("ENV_MISSING", "R2_ACCOUNT_ID, the account that r2:// buckets are of", {
    hint: "set it, or name the address in store.endpoint",
  });
}

function givenCredentials(environment: Environment): BucketSettings["credentials"] {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = environment;
  if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) return undefined;
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    ...(AWS_SESSION_TOKEN && { sessionToken: AWS_SESSION_TOKEN }),
  };
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
