import { SluiceError } from "../../foundation/errors.ts";
import type { StoreOptions } from "./store-options.ts";

/** Where an object, or all below a prefix, lies. */
export interface ObjectLocation {
  scheme: string;
  bucket: string;
  /** A key or the beginning of keys, without a leading slash; empty for the whole bucket. */
  key: string;
}

/** How a bucket is reached. */
export interface BucketSettings {
  /** Undefined: the one of AWS for the region. */
  endpoint: string | undefined;
  /** Undefined: what the profile says. */
  region: string | undefined;
  isPathStyle: boolean;
  /** Undefined: by the usual chain. */
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | undefined;
  /** Whether checksums are sent and asked for where the service does not demand them. */
  checksums: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

const objectSchemes = ["s3", "r2", "gs"];
const locationPattern = /^([a-z0-9]+):\/\/([^/]*)\/*(.*)$/is;
const bucketPattern = /^[a-z0-9][a-z0-9._-]{1,221}$/i;

/** True for a scheme whose places are buckets: `s3`, `r2` or `gs`. */
export function isObjectScheme(scheme: string | undefined): boolean {
  return scheme !== undefined && objectSchemes.includes(scheme);
}

/**
 * The parts of a location.
 *
 * @throws SluiceError `USAGE` where it names no bucket.
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
 * How the buckets of a scheme are reached: by what the job says, else by the environment.
 *
 * @throws SluiceError `ENV_MISSING` where `r2:` has neither an endpoint nor an account.
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
    // Google's face of S3 takes no headers that it does not know into the signature.
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
