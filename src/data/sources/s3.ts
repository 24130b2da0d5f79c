import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { type ReadAheadMemory, readAhead } from "../read-ahead.ts";
import type { S3Bucket } from "../s3/bucket.ts";
import { openS3Bucket } from "../s3/open.ts";
import type { ObjectFacts } from "../s3/requests.ts";
import { parseObjectLocation } from "../s3/settings.ts";
import { findListed } from "./listed.ts";
import type { SourceContext, SourceStore } from "./source-store.ts";

/** Objects whose size and ETag are remembered. */
const maxKnownObjects = 64;

/** Objects of stores with the S3 protocol: `s3://`, `r2://`, `gs://`. */
export function s3Source(context: SourceContext, memory: ReadAheadMemory): SourceStore {
  const buckets = new Map<string, S3Bucket>();
  const known = new KnownObjects();
  const bucketOf = (address: string) => {
    const { scheme, bucket, key } = parseObjectLocation(address);
    const root = `${scheme}://${bucket}/`;
    const known = buckets.get(root) ?? openS3Bucket(address, context);
    buckets.set(root, known);
    return { bucket: known, root, key };
  };
  return {
    async find(address, _baseDirectory, maxFiles) {
      const { bucket, root, key } = bucketOf(address);
      return await findListed(key, { root, list: (prefix) => listed(bucket, prefix) }, maxFiles);
    },
    async *list(address) {
      const { bucket, root, key } = bucketOf(address);
      const folder = key === "" || key.endsWith("/") ? key : `${key}/`;
      for await (const file of listed(bucket, key)) {
        const isBelow = file.path === key || file.path.startsWith(folder);
        if (isBelow) yield { ...file, path: root + file.path };
      }
    },
    async open(address, { etag, end } = {}) {
      const { bucket, key } = bucketOf(address);
      const found = known.get(address, etag) ?? (await bucket.head(key));
      if (!found) throw new SluiceError("NOT_FOUND", "", { file: address });
      if (etag !== undefined && etag !== found.etag) throw changed(address);
      known.set(address, found);
      const { bytes } = found;
      const pinned = found.etag || undefined;
      const aheadEnd = end ?? bytes;
      const fetch = async (start: number, end: number) => {
        try {
          return await bucket.get(key, { start, end }, pinned);
        } catch (error) {
          throw (await hasChanged(bucket, key, found.etag)) ? changed(address) : error;
        }
      };
      const aheadBytes = end === undefined ? 0 : limits.maxRangeBytes;
      return readAhead({ bytes, aheadEnd, aheadBytes, fetch }, memory);
    },
  };
}

/**
 * Objects opened last, so that a file of many tasks is looked up once. Each range is requested with
 * the ETag, so a replaced object is noticed all the same.
 */
class KnownObjects {
  readonly #facts = new Map<string, ObjectFacts>();

  /** The facts of an object, if its ETag is this one. */
  get(address: string, etag: string | undefined): ObjectFacts | undefined {
    const facts = this.#facts.get(address);
    return facts && etag !== undefined && facts.etag === etag ? facts : undefined;
  }

  set(address: string, facts: ObjectFacts): void {
    this.#facts.set(address, facts);
    if (this.#facts.size <= maxKnownObjects) return;
    for (const oldest of this.#facts.keys()) return void this.#facts.delete(oldest);
  }
}

async function* listed(bucket: S3Bucket, prefix: string) {
  for await (const { key: path, bytes, etag } of bucket.list(prefix)) {
    // Some gateways have no ETag for objects that came another way.
    yield { path, bytes, modifiedMs: 0, ...(etag && { etag }) };
  }
}

/** Why a range was refused: a changed content, or a failure of the store. Only the ETag tells. */
async function hasChanged(bucket: S3Bucket, key: string, etag: string): Promise<boolean> {
  const now = await bucket.head(key).catch(() => undefined);
  return now !== undefined && now.etag !== etag;
}

function changed(file: string): SluiceError {
  return new SluiceError("INPUT_CHANGED", "the store has another content now", { file });
}
