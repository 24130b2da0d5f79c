import type { Storage, Writer } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { randomUuid } from "../../foundation/ids.ts";
import { limits } from "../../foundation/limits.ts";
import type { Random } from "../../foundation/random.ts";
import { readJson } from "../../run/directory/records.ts";

/** A file, as OpenAI's API describes it. */
export interface FileObject {
  id: string;
  object: "file";
  bytes: number;
  /** Seconds since 1970, as are all times of the API. */
  created_at: number;
  expires_at: number | null;
  filename: string;
  purpose: string;
  status: "processed";
  status_details: null;
}

/** What the maker of a file says of it. */
export interface FileFacts extends Pick<FileObject, "filename" | "purpose"> {
  /** Time from its creation to its removal; default: it stays. */
  lifeSeconds?: number | undefined;
}

/** A file that is being written. It appears with `finish`. */
export interface Upload {
  readonly bytes: number;
  write(chunk: Uint8Array): Promise<void>;
  finish(facts: FileFacts): Promise<FileObject>;
  abort(): Promise<void>;
}

const folder = "files/";
const contentPath = (id: string) => `${folder}${id}.content`;
const recordPath = (id: string) => `${folder}${id}.json`;

/** The uploaded files of a server, and the results of its batches. */
export class FileStore {
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #files = new Map<string, FileObject>();

  private constructor(storage: Storage, clock: Clock, random: Random) {
    this.#storage = storage;
    this.#clock = clock;
    this.#random = random;
  }

  /** Reads what is stored, and removes what a killed server left of unfinished uploads. */
  static async open(storage: Storage, clock: Clock, random: Random): Promise<FileStore> {
    const store = new FileStore(storage, clock, random);
    const contents = new Set<string>();
    for await (const { path } of storage.list(folder)) {
      if (path.endsWith(".content")) contents.add(path);
      else if (path.endsWith(".json")) {
        const file = (await readJson<FileObject>(storage, path))!;
        store.#files.set(file.id, file);
      }
    }
    for (const path of contents) {
      if (!store.#files.has(path.slice(folder.length, -".content".length))) {
        await storage.remove(path);
      }
    }
    for await (const { path } of storage.leftovers?.(folder) ?? []) await storage.remove(path);
    await store.#removeExpired();
    return store;
  }

  async all(): Promise<FileObject[]> {
    await this.#removeExpired();
    return [...this.#files.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  /** @throws SluiceError `FILE_UNKNOWN`. */
  get(id: string): FileObject {
    const file = isId("file-", id) ? this.#files.get(id) : undefined;
    if (file && !this.#isExpired(file)) return file;
    throw new SluiceError("FILE_UNKNOWN", id, { field: "id" });
  }

  /** The bytes of a file from `start` to `end`, which is not included. */
  async *read(id: string, start: number, end: number): AsyncGenerator<Uint8Array> {
    const reader = await this.#storage.open(contentPath(this.get(id).id));
    try {
      for (let at = start; at < end; at += limits.readChunkBytes) {
        yield await reader.read(at, Math.min(limits.readChunkBytes, end - at));
      }
    } finally {
      await reader.close();
    }
  }

  /** @throws SluiceError `FILE_UNKNOWN`. */
  async remove(id: string): Promise<void> {
    await this.#remove(this.get(id).id);
  }

  async begin(): Promise<Upload> {
    // Their bytes make room for new ones.
    await this.#removeExpired();
    const id = this.newId();
    return new RunningUpload(await this.#storage.writer(contentPath(id)), (facts, bytes) =>
      this.#record(id, facts, bytes),
    );
  }

  newId(): string {
    return newId("file-", this.#clock, this.#random);
  }

  /** Gives a file under another name, such as the input of a batch; both are one on a disk. */
  async copy(id: string, path: string): Promise<void> {
    await this.#storage.publish(contentPath(this.get(id).id), path);
  }

  /** Makes a file of a stored object. The same call again changes nothing. */
  async adopt(id: string, path: string, facts: FileFacts): Promise<FileObject> {
    const known = this.#files.get(id);
    if (known) return known;
    await this.#storage.publish(path, contentPath(id));
    const stored = await this.#storage.stat(contentPath(id));
    return await this.#record(id, facts, stored!.bytes);
  }

  async #removeExpired(): Promise<void> {
    for (const file of [...this.#files.values()]) {
      if (this.#isExpired(file)) await this.#remove(file.id);
    }
  }

  #isExpired({ expires_at }: FileObject): boolean {
    return expires_at !== null && expires_at * 1000 <= this.#clock.now();
  }

  async #record(id: string, facts: FileFacts, bytes: number): Promise<FileObject> {
    const { filename, purpose, lifeSeconds } = facts;
    const created = Math.floor(this.#clock.now() / 1000);
    const file: FileObject = {
      ...{ id, object: "file", bytes, created_at: created },
      expires_at: lifeSeconds === undefined ? null : created + lifeSeconds,
      ...{ filename, purpose, status: "processed", status_details: null },
    };
    await this.#storage.replace(recordPath(id), Buffer.from(JSON.stringify(file)));
    this.#files.set(id, file);
    return file;
  }

  // The record first: a content without one is removed at the next start.
  async #remove(id: string): Promise<void> {
    this.#files.delete(id);
    await this.#storage.remove(recordPath(id));
    await this.#storage.remove(contentPath(id));
  }
}

class RunningUpload implements Upload {
  bytes = 0;
  readonly #writer: Writer;
  readonly #record: (facts: FileFacts, bytes: number) => Promise<FileObject>;

  constructor(writer: Writer, record: (facts: FileFacts, bytes: number) => Promise<FileObject>) {
    this.#writer = writer;
    this.#record = record;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.bytes += chunk.length;
    await this.#writer.write(chunk);
  }

  async finish(facts: FileFacts): Promise<FileObject> {
    await this.#writer.close();
    return await this.#record(facts, this.bytes);
  }

  abort(): Promise<void> {
    return this.#writer.abort();
  }
}

type Prefix = "file-" | "batch_";

/**
 * A new id that sorts by the time it was made, so that a page of a list can begin after an object
 * that was deleted.
 */
export function newId(prefix: Prefix, clock: Clock, random: Random): string {
  const time = Math.floor(clock.now()).toString(16).padStart(12, "0");
  return prefix + time + randomUuid(random).replaceAll("-", "").slice(12);
}

/** True for an id of `newId`. Ids become parts of paths, so nothing else may. */
export function isId(prefix: Prefix, text: string): boolean {
  return text.startsWith(prefix) && /^[0-9a-f]{32}$/.test(text.slice(prefix.length));
}
