import { createHash } from "node:crypto";
import { withBackoff } from "../../foundation/backoff.ts";
import type { Clock } from "../../foundation/clock.ts";
import { eachAtOnce } from "../../foundation/each-at-once.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { sortableId } from "../../foundation/ids.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import { ReadAheadMemory, readAhead } from "../read-ahead.ts";
import type { RandomReader, Writer } from "../storage/storage.ts";
import { faultOf, isTransient, storeErrorOf } from "./faults.ts";
import {
  type ByteRange,
  type ListingStart,
  maxKeysOfRemoval,
  type ObjectFacts,
  type OpenUpload,
  type S3Requests,
  type StoredPart,
  type UploadedPart,
  uploadNameKey,
} from "./requests.ts";
import { type KnownUpload, Upload, type UploadSteps } from "./upload.ts";

/** The first and longest wait between two tries of a request. */
const storeBackoffBaseMs = 100;
const storeBackoffMaxMs = 10_000;

/** Objects to remove at once where each takes a request. */
const removalsAtOnce = 32;

const bare = (etag: string) => etag.replaceAll('"', "");

/** The ETag of an object, of parts whose ETags are MD5s: the MD5 of these, and their number. */
function etagOfParts(parts: readonly UploadedPart[]): string {
  const all = createHash("md5");
  for (const { etag } of parts) all.update(Buffer.from(bare(etag), "hex"));
  return `${all.digest("hex")}-${parts.length}`;
}

/** What a bucket needs from its opener. */
export interface BucketParts {
  /** As a person writes it: `s3://bucket`. */
  location: string;
  /** Loads the library and connects; called once, by the first request. */
  connect(): Promise<S3Requests>;
  clock: Clock;
  random: Random;
}

/**
 * One bucket of an object store. Keys are complete, without a leading slash. A request that may
 * succeed later is tried again, with full jitter. After that all methods throw SluiceError:
 * `NOT_FOUND` if a named object is absent, `STORE_FULL`, else `STORE_FAILED`.
 *
 * @example
 * const bucket = openS3Bucket("s3://bucket", context);
 * for await (const { key, bytes } of bucket.list("input/")) console.log(key, bytes);
 */
export class S3Bucket {
  readonly location: string;
  readonly #parts: BucketParts;
  readonly #aheadMemory = new ReadAheadMemory();
  #connecting: Promise<S3Requests> | undefined;
  /** False once the store has refused to remove several objects by one request. */
  #removesTogether = true;

  constructor(parts: BucketParts) {
    this.location = parts.location;
    this.#parts = parts;
  }

  /** Size and ETag of an object, or undefined if it does not exist. */
  async head(key: string): Promise<ObjectFacts | undefined> {
    return await this.#absentAsUndefined(key, (requests) => requests.head(key));
  }

  /** The object or a range of it. With `etag`, fails if the content has changed. */
  async get(key: string, range?: ByteRange, etag?: string): Promise<Uint8Array> {
    return await this.#send(key, (requests) => requests.get(key, range, etag));
  }

  /**
   * Objects whose key begins with `prefix`, sorted by the UTF-8 bytes of their keys.
   *
   * @param behind only those whose keys come after this one.
   */
  async *list(prefix: string, behind?: string): AsyncGenerator<ObjectFacts> {
    const page = (start?: ListingStart) =>
      this.#send(prefix, (requests) => requests.list(prefix, start));
    let coming = page(behind === undefined ? undefined : { behind });
    let asked: string | undefined;
    for (;;) {
      const { objects, next } = await coming;
      if (next !== undefined && next === asked) {
        const file = this.#pathOf(prefix);
        throw new SluiceError("STORE_FAILED", "its listing repeats itself", { file });
      }
      asked = next;
      if (next !== undefined) {
        coming = page({ next });
        coming.catch(() => {});
      }
      yield* objects;
      if (next === undefined) return;
    }
  }

  /** Creates or replaces an object. */
  async put(key: string, data: Uint8Array): Promise<void> {
    await this.#send(key, (requests) => requests.put(key, data, false));
  }

  /**
   * Creates an object if none exists. `"unclear"` if an earlier try may have succeeded: its reply
   * was lost, or a refusal came after such a try.
   */
  async putIfAbsent(key: string, data: Uint8Array): Promise<"created" | "exists" | "unclear"> {
    let isUnclear = false;
    try {
      await this.#withBackoff(async (requests) => {
        try {
          await requests.put(key, data, true);
        } catch (error) {
          if (isTransient(error)) isUnclear = true;
          throw error;
        }
      });
      return "created";
    } catch (error) {
      const fault = faultOf(error);
      if (fault === "condition") return isUnclear ? "unclear" : "exists";
      if (fault === "conflict" || fault === "transient") return "unclear";
      throw this.#error(error, key);
    }
  }

  /** Copies an object to `to`, within the store. */
  async copy(from: string, to: string): Promise<void> {
    try {
      await this.#withBackoff((requests) => requests.copy(from, to));
    } catch (error) {
      // Stores have many error names for an object too large to copy in one request.
      const found = faultOf(error) === "refused" ? await this.head(from) : undefined;
      if (!found || found.bytes <= limits.maxStoreCopyBytes) throw this.#error(error, from);
      await this.#copyByParts(found, to);
    }
  }

  /** Removes an object; an absent one is fine. */
  async remove(key: string): Promise<void> {
    await this.#absentAsUndefined(key, (requests) => requests.remove(key));
  }

  /** Removes objects, many by one request; absent ones are fine. */
  async removeAll(keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += maxKeysOfRemoval) {
      await this.#removeTogether(keys.slice(at, at + maxKeysOfRemoval));
    }
  }

  async #removeTogether(keys: readonly string[]): Promise<void> {
    try {
      if (this.#removesTogether) {
        return await this.#withBackoff((requests) => requests.removeAll(keys));
      }
    } catch (error) {
      if (faultOf(error) !== "refused") throw this.#error(error, keys[0]!);
      // Some stores lack this request. Whatever else they refuse, they refuse for one object too.
      this.#removesTogether = false;
    }
    await eachAtOnce(keys, removalsAtOnce, (key) => this.remove(key));
  }

  /**
   * Reads an object at any offset, and reads ahead. All reads are of the content at the time of
   * opening.
   *
   * @throws SluiceError `STORE_FAILED` by a read, after the object was replaced.
   */
  async reader(key: string): Promise<RandomReader> {
    return this.readerOf(await this.#send(key, (requests) => requests.head(key)));
  }

  /** As `reader`, for an object from a listing. */
  readerOf({ key, bytes, etag }: ObjectFacts): RandomReader {
    const fetch = async (start: number, end: number) => {
      try {
        return await this.#withBackoff((requests) => requests.get(key, { start, end }, etag));
      } catch (error) {
        if (faultOf(error) !== "condition") throw this.#error(error, key);
        const file = this.#pathOf(key);
        throw new SluiceError("STORE_FAILED", "it was replaced while it was read", { file });
      }
    };
    return readAhead({ bytes, fetch }, this.#aheadMemory);
  }

  /**
   * Writes an object from its start; a large one in parts.
   *
   * @param known what is known already: the object's size, and the parts of it that the store has.
   *   The writer continues after these parts.
   */
  writer(key: string, known: KnownUpload = {}): Writer {
    const name = sortableId(this.#parts.clock, this.#parts.random);
    const steps: UploadSteps = {
      put: (data) => this.put(key, data),
      begin: () => this.#send(key, (requests) => requests.beginUpload(key, name)),
      putPart: (uploadId, number, data) =>
        this.#send(key, (requests) => requests.uploadPart({ key, uploadId, number }, data)),
      complete: (uploadId, parts) => this.#complete(key, { uploadId, name, parts }),
      abort: (uploadId) => this.abortUpload(key, uploadId),
    };
    return new Upload(steps, known);
  }

  /** Multipart uploads below a prefix that are neither complete nor aborted. */
  async uploads(prefix: string): Promise<OpenUpload[]> {
    return await this.#send(prefix, (requests) => requests.listUploads(prefix));
  }

  /** The parts of an open upload, by number. */
  async parts(key: string, uploadId: string): Promise<StoredPart[]> {
    return await this.#send(key, (requests) => requests.listParts(key, uploadId));
  }

  /** Ends an upload and removes its parts; one that has ended is fine. */
  async abortUpload(key: string, uploadId: string): Promise<void> {
    await this.#absentAsUndefined(key, (requests) => requests.abortUpload(key, uploadId));
  }

  async #complete(
    key: string,
    { uploadId, name, parts }: { uploadId: string; name: string; parts: readonly UploadedPart[] },
  ): Promise<void> {
    await this.#send(key, async (requests) => {
      try {
        await requests.completeUpload(key, uploadId, parts);
      } catch (error) {
        // The upload may be gone because an earlier try completed it and the reply was lost.
        if (faultOf(error) !== "absent") throw error;
        const { metadata, etag } = await requests.head(key);
        // An upload that an earlier process began has another name.
        if (metadata[uploadNameKey] !== name && bare(etag) !== etagOfParts(parts)) throw error;
      }
    });
  }

  async #copyByParts({ key: from, bytes }: ObjectFacts, to: string): Promise<void> {
    const name = sortableId(this.#parts.clock, this.#parts.random);
    const uploadId = await this.#send(to, (requests) => requests.beginUpload(to, name));
    try {
      const parts: UploadedPart[] = [];
      for (let start = 0; start < bytes; start += limits.maxStoreCopyBytes) {
        const range = { start, end: Math.min(start + limits.maxStoreCopyBytes, bytes) };
        const part = { key: to, uploadId, number: parts.length + 1 };
        parts.push(await this.#send(to, (requests) => requests.copyPart(part, from, range)));
      }
      await this.#complete(to, { uploadId, name, parts });
    } catch (error) {
      await this.abortUpload(to, uploadId).catch(() => {});
      throw error;
    }
  }

  async #absentAsUndefined<T>(
    key: string,
    action: (requests: S3Requests) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await this.#withBackoff(action);
    } catch (error) {
      if (faultOf(error) === "absent") return undefined;
      throw this.#error(error, key);
    }
  }

  async #send<T>(key: string, action: (requests: S3Requests) => Promise<T>): Promise<T> {
    try {
      return await this.#withBackoff(action);
    } catch (error) {
      throw this.#error(error, key);
    }
  }

  async #withBackoff<T>(action: (requests: S3Requests) => Promise<T>): Promise<T> {
    const { clock, random } = this.#parts;
    this.#connecting ??= this.#parts.connect();
    const requests = await this.#connecting;
    return await withBackoff(() => action(requests), {
      clock,
      random,
      maxTries: limits.maxStoreTries,
      backoff: { baseMs: storeBackoffBaseMs, maxMs: storeBackoffMaxMs },
      isTransient,
    });
  }

  #error(thrown: unknown, key: string): SluiceError {
    return storeErrorOf(thrown, this.#pathOf(key));
  }

  #pathOf(key: string): string {
    return `${this.location}/${key}`;
  }
}
