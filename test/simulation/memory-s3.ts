import { createHash } from "node:crypto";
import { S3Bucket } from "../../src/data/s3/bucket.ts";
import type {
  ListingStart,
  ObjectPage,
  OpenUpload,
  S3Requests,
} from "../../src/data/s3/requests.ts";
import { memoryStorage } from "../../src/data/storage/memory.ts";
import { S3Storage } from "../../src/data/storage/s3/s3-storage.ts";
import { segmentPath, segmentPrefix } from "../../src/data/storage/s3/segment-names.ts";
import type { Spool } from "../../src/data/storage/s3/spool.ts";
import type { Storage } from "../../src/data/storage/storage.ts";
import type { Clock } from "../../src/foundation/clock.ts";
import { type Random, randomInteger } from "../../src/foundation/random.ts";

/** What one process needs to reach a store of `MemoryS3`. */
export interface Reach {
  location: string;
  clock: Clock;
  random: Random;
  /** Share of requests that fail; those of a process that is killed end with it. */
  faultRate(): number;
}

/**
 * An object store in memory as S3 is: nothing is appended to, creating is a conditional write, and
 * any request may be refused, or carried out without a reply. Every process reaches it by the real
 * client of the project, with its retries, and all of them are on one machine, with one spool.
 */
export class MemoryS3 {
  readonly #objects = new Map<string, Uint8Array>();
  readonly #spool = new MemorySpool();

  /** The store as one process sees it. */
  storageOf({ location, clock, random, faultRate }: Reach): Storage {
    const requests = faulty(new MemoryRequests(this.#objects), random, faultRate);
    const connect = async () => requests;
    const bucket = new S3Bucket({ location: "s3://simulated", connect, clock, random });
    return new S3Storage({
      ...{ location, bucket, clock, prefix: "", isConditional: true },
      spool: this.#spool,
    });
  }
}

class MemoryRequests implements S3Requests {
  readonly #objects: Map<string, Uint8Array>;

  constructor(objects: Map<string, Uint8Array>) {
    this.#objects = objects;
  }

  head: S3Requests["head"] = async (key) => {
    const content = this.#existing(key);
    return { key, bytes: content.length, etag: etagOf(content), metadata: {} };
  };

  get: S3Requests["get"] = async (key, range, etag) => {
    const content = this.#existing(key);
    if (etag !== undefined && etag !== etagOf(content)) throw reply(412, "PreconditionFailed");
    return content.slice(range?.start, range?.end);
  };

  async list(prefix: string, start: ListingStart = { behind: "" }): Promise<ObjectPage> {
    const behind = "behind" in start ? start.behind : start.next;
    const isListed = (key: string) => key.startsWith(prefix) && key > behind;
    const keys = [...this.#objects.keys()].filter(isListed).sort();
    const objects = keys.map((key) => {
      const content = this.#objects.get(key)!;
      return { key, bytes: content.length, etag: etagOf(content) };
    });
    return { objects, next: undefined };
  }

  async put(key: string, data: Uint8Array, isNew: boolean): Promise<void> {
    if (isNew && this.#objects.has(key)) throw reply(412, "PreconditionFailed");
    this.#objects.set(key, data.slice());
  }

  async copy(from: string, to: string): Promise<void> {
    this.#objects.set(to, this.#existing(from));
  }

  async remove(key: string): Promise<void> {
    this.#objects.delete(key);
  }

  async removeAll(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.#objects.delete(key);
  }

  async listUploads(): Promise<OpenUpload[]> {
    return [];
  }

  // Nothing of a simulation is large enough for parts.
  beginUpload = neverAsked;
  uploadPart = neverAsked;
  copyPart = neverAsked;
  completeUpload = neverAsked;
  abortUpload = neverAsked;
  listParts = neverAsked;

  #existing(key: string): Uint8Array {
    const content = this.#objects.get(key);
    if (!content) throw reply(404, "NoSuchKey");
    return content;
  }
}

async function neverAsked(): Promise<never> {
  throw new Error("no simulated object is that large");
}

/** The same requests, some of which fail before or after they are carried out. */
function faulty(inner: S3Requests, random: Random, rate: () => number): S3Requests {
  return new Proxy(inner, {
    get: (target, name: keyof S3Requests) => {
      // Whoever resolves a promise with it looks for a method of promises.
      const method = target[name]?.bind(target) as (...args: unknown[]) => Promise<unknown>;
      if (method === undefined) return undefined;
      return async (...args: unknown[]) => {
        if (random.next() >= rate()) return await method(...args);
        const isConditional = name === "put" && args[2] === true;
        const kind = randomInteger(random, isConditional ? 4 : 3);
        if (kind === 0) throw reply(503, "SlowDown");
        if (kind === 1) throw reset();
        if (kind === 3) throw reply(409, "ConditionalRequestConflict");
        await method(...args);
        throw reset();
      };
    },
  });
}

function reply(httpStatusCode: number, name: string): Error {
  return Object.assign(new Error(name), { name, $metadata: { httpStatusCode } });
}

function reset(): Error {
  return Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
}

function etagOf(content: Uint8Array): string {
  return createHash("md5").update(content).digest("hex");
}

/** What processes of one machine keep on its disk. */
class MemorySpool implements Spool {
  readonly #storage = memoryStorage();

  async numbers(path: string): Promise<number[]> {
    const prefix = segmentPrefix(path);
    const files = await Array.fromAsync(this.#storage.list(prefix));
    return files.map((file) => Number(file.path.slice(prefix.length)));
  }

  create: Spool["create"] = (path, number) => this.#storage.appender(segmentPath(path, number));

  async read(path: string, number: number): Promise<Uint8Array | undefined> {
    return await this.#storage.read(segmentPath(path, number)).catch(() => undefined);
  }

  open: Spool["open"] = (path, number) =>
    this.#storage.open(segmentPath(path, number)).catch(() => undefined);

  remove: Spool["remove"] = (path, number) => this.#storage.remove(segmentPath(path, number));

  async tidy(): Promise<void> {}
}
