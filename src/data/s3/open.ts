import type { Clock } from "../../foundation/clock.ts";
import type { Random } from "../../foundation/random.ts";
import { S3Bucket } from "./bucket.ts";
import type { S3Requests } from "./requests.ts";
import { bucketSettings, parseObjectLocation } from "./settings.ts";
import type { StoreOptions } from "./store-options.ts";

/** What object stores need from outside. */
export interface S3Context {
  environment: Readonly<Record<string, string | undefined>>;
  clock: Clock;
  random: Random;
  /** The job's options for its stores; default: none. */
  store?: StoreOptions;
}

type Client = Awaited<ReturnType<typeof import("./sdk-requests.ts").connect>>;

/** Connections of each context, by their settings: buckets share them. */
const clients = new WeakMap<S3Context, Map<string, Promise<Client>>>();

/**
 * The bucket of a location: `s3://BUCKET/…`, `r2://…` or `gs://…`. Its library is loaded by the
 * first request. Buckets opened with the same context share connections.
 *
 * @throws SluiceError `USAGE` if the location names no bucket; `ENV_MISSING`.
 * @example
 * const { key } = parseObjectLocation("s3://bucket/rows.jsonl");
 * const reader = await openS3Bucket("s3://bucket/rows.jsonl", context).reader(key);
 */
export function openS3Bucket(location: string, context: S3Context): S3Bucket {
  const { scheme, bucket } = parseObjectLocation(location);
  const { environment, clock, random, store = {} } = context;
  const settings = bucketSettings(scheme, store, environment);
  const connect = async (): Promise<S3Requests> => {
    // The library would be half of what a start loads, and most runs do not use it.
    const { connect, SdkRequests } = await import("./sdk-requests.ts");
    const known = clients.get(context) ?? new Map<string, Promise<Client>>();
    clients.set(context, known);
    const client = known.get(scheme) ?? connect(settings);
    known.set(scheme, client);
    return new SdkRequests(await client, bucket, settings.checksums);
  };
  return new S3Bucket({ location: `${scheme}://${bucket}`, connect, clock, random });
}
