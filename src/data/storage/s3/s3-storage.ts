import type { Clock } from "../../../foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../../foundation/errors.ts";
import type { S3Bucket } from "../../s3/bucket.ts";
import type { ObjectFacts } from "../../s3/requests.ts";
import type { Appender, Leftover, RandomReader, Storage, StoredFile, Writer } from "../storage.ts";
import { SegmentAppender } from "./segment-appender.ts";
import {
  mayGrow,
  segmentOf,
  segmentPath,
  segmentPrefix,
  uploadOf,
  uploadPath,
  wholePath,
} from "./segment-names.ts";
import type { Spool } from "./spool.ts";

/** As few objects with segments are looked for one by one. */
const minGrownToList = 16;

export interface S3StorageOptions {
  /** As a person writes it: `s3://bucket/prefix`. */
  location: string;
  bucket: S3Bucket;
  /** The beginning of all keys: empty, or ending in a slash. */
  prefix: string;
  /** Keeps appended bytes until they are in the store. */
  spool: Spool;
  clock: Clock;
  /** As in `Storage`. */
  flags?: string | undefined;
  /** False: the store has no conditional writes, and two creators of one object may both win. */
  isConditional: boolean;
}

/**
 * Storage below a prefix of an object store. Create-if-absent is a conditional write and publishing
 * is a copy. An object that is appended to is stored in segments, which readers see as one object.
 */
export class S3Storage implements Storage {
  readonly location: string;
  readonly flags: string | undefined;
  readonly createsOnce: boolean;
  readonly #options: S3StorageOptions;
  readonly #bucket: S3Bucket;
  readonly #segments: Segments;
  /** Paths that this process appends to; none of them is a plain object. */
  readonly #growing = new Set<string>();

  constructor(options: S3StorageOptions) {
    const { location, bucket, prefix, spool } = options;
    this.location = location;
    this.flags = options.flags;
    this.createsOnce = options.isConditional;
    this.#options = options;
    this.#bucket = bucket;
    this.#segments = new Segments(bucket, prefix, spool);
  }

  async read(path: string): Promise<Uint8Array> {
    try {
      return await this.#bucket.get(this.#keyOf(path));
    } catch (error) {
      const reader = await this.#appended(path, error);
      try {
        return await reader.read(0, reader.bytes);
      } finally {
        await reader.close();
      }
    }
  }

  async open(path: string): Promise<RandomReader> {
    const growing = this.#growing.has(path) ? await this.#segments.open(path) : undefined;
    if (growing) return growing;
    try {
      return await this.#bucket.reader(this.#keyOf(path));
    } catch (error) {
      return await this.#appended(path, error);
    }
  }

  async stat(path: string): Promise<StoredFile | undefined> {
    const found = await this.#bucket.head(this.#keyOf(path));
    if (found) return { path, bytes: found.bytes };
    if (!mayGrow(path)) return undefined;
    const reader = await this.#segments.open(path);
    await reader?.close();
    return reader && { path, bytes: reader.bytes };
  }

  async *list(prefix: string): AsyncIterable<StoredFile> {
    let held: { path: string; bytes: number; lastSegment: number } | undefined;
    for await (const { key, bytes } of this.#bucket.list(this.#keyOf(prefix))) {
      const path = this.#pathOf(key);
      // Some programs make such an object to stand for a folder.
      if (path.endsWith("/") || path === "") continue;
      const segment = segmentOf(path);
      if (held && wholePath(path) === held.path) {
        if (held.lastSegment < 0 || !segment) continue;
        held.bytes += bytes;
        held.lastSegment = segment.number;
        continue;
      }
      if (held) yield await this.#listed(held);
      held = { path: wholePath(path), bytes, lastSegment: segment?.number ?? -1 };
    }
    if (held) yield await this.#listed(held);
  }

  async createIfAbsent(path: string, data: Uint8Array): Promise<"created" | "exists" | "unclear"> {
    const key = this.#keyOf(path);
    if (this.#options.isConditional) return await this.#bucket.putIfAbsent(key, data);
    if (await this.#bucket.head(key)) return "exists";
    await this.#bucket.put(key, data);
    // If two processes write at once, the last one wins, and the other notices unless it reads too
    // early.
    const standing = await this.#bucket.get(key);
    return Buffer.from(data).equals(standing) ? "created" : "exists";
  }

  async replace(path: string, data: Uint8Array): Promise<void> {
    await this.#bucket.put(this.#keyOf(path), data);
  }

  async appender(path: string, { isNew = false } = {}): Promise<Appender> {
    if (!mayGrow(path)) throw new SluiceError("INTERNAL", `an appender of ${path}`);
    const { clock } = this.#options;
    const { spool } = this.#segments;
    const put = (number: number, data: Uint8Array) =>
      this.#bucket.put(this.#keyOf(segmentPath(path, number)), data);
    const stored = isNew ? [] : await this.#asSegments(path);
    let next = stored.length === 0 ? 0 : segmentOf(stored.at(-1)!.key)!.number + 1;
    let putCostMs = 0;
    if (next === 0) {
      const begunMs = clock.monotonic();
      await put(next++, new Uint8Array(0));
      putCostMs = clock.monotonic() - begunMs;
    }
    // A process that died may have left segments here.
    for (const number of await spool.numbers(path)) {
      const data = number < next ? undefined : await spool.read(path, number);
      if (data) await put(number, data);
      await spool.remove(path, number);
      next = Math.max(next, number + 1);
    }
    this.#growing.add(path);
    const onClose = () => void this.#growing.delete(path);
    return new SegmentAppender({ path, firstNumber: next, spool, clock, put, putCostMs, onClose });
  }

  async writer(path: string): Promise<Writer> {
    return this.#bucket.writer(this.#keyOf(path));
  }

  async publish(from: string, to: string): Promise<void> {
    if (from !== to) return await this.#bucket.copy(this.#keyOf(from), this.#keyOf(to));
    // Stores refuse to copy an object onto itself.
    if (await this.stat(from)) return;
    throw new SluiceError("NOT_FOUND", "", { file: `${this.location}/${from}` });
  }

  async remove(path: string): Promise<void> {
    const upload = uploadOf(path);
    if (upload) return await this.#bucket.abortUpload(this.#keyOf(upload.path), upload.uploadId);
    if (mayGrow(path)) await this.#removeGrown(path);
    else await this.#bucket.remove(this.#keyOf(path));
  }

  async removeAll(paths: readonly string[]): Promise<void> {
    const plain = paths.filter((path) => !mayGrow(path) && !uploadOf(path));
    await this.#bucket.removeAll(plain.map((path) => this.#keyOf(path)));
    const grown = paths.filter(mayGrow);
    if (grown.length >= minGrownToList) await this.#removeAllGrown(grown);
    else for (const path of grown) await this.#removeGrown(path);
    for (const path of paths) if (uploadOf(path)) await this.remove(path);
  }

  async *leftovers(prefix: string): AsyncIterable<Leftover> {
    const nowMs = this.#options.clock.now();
    for (const { key, uploadId, begunMs } of await this.#bucket.uploads(this.#keyOf(prefix))) {
      const path = uploadPath(this.#pathOf(key), uploadId);
      yield { path, bytes: 0, idleMs: nowMs - begunMs };
    }
  }

  async *leftoversOf(paths: readonly string[]): AsyncIterable<Leftover> {
    if (paths.length === 0) return;
    const wanted = new Set(paths);
    for await (const leftover of this.leftovers(sharedStart(paths))) {
      if (wanted.has(uploadOf(leftover.path)!.path)) yield leftover;
    }
  }

  /** Lists all from the first to the last one, instead of the segments of each. */
  async #removeAllGrown(paths: readonly string[]): Promise<void> {
    const wanted = new Set(paths);
    const sorted = paths.toSorted(byUtf8);
    const end = this.#keyOf(`${segmentPrefix(sorted.at(-1)!)}~`);
    const found = new Map<number, string[]>();
    for await (const { key } of this.#bucket.list(this.#keyOf(""), this.#keyOf(sorted[0]!))) {
      if (byUtf8(key, end) > 0) break;
      const segment = segmentOf(this.#pathOf(key));
      if (!segment || !wanted.has(segment.path)) continue;
      const same = found.get(segment.number);
      if (same) same.push(key);
      else found.set(segment.number, [key]);
    }
    // Last ones first: after a kill, what remains of an object is a beginning.
    for (const number of [...found.keys()].sort((a, b) => b - a)) {
      await this.#bucket.removeAll(found.get(number)!);
    }
    await this.#bucket.removeAll(paths.map((path) => this.#keyOf(path)));
    for (const path of paths)
      await this.#removeSpooled(path, await this.#segments.spool.numbers(path));
  }

  async #removeGrown(path: string): Promise<void> {
    const spooled = await this.#segments.spool.numbers(path);
    const keys: string[] = [];
    for await (const { key } of this.#bucket.list(this.#keyOf(path))) {
      if (wholePath(this.#pathOf(key)) === path) keys.push(key);
    }
    // Last one first: after a kill, what remains is a beginning.
    for (const key of keys.toReversed()) await this.#bucket.remove(key);
    await this.#removeSpooled(path, spooled);
  }

  async #removeSpooled(path: string, numbers: readonly number[]): Promise<void> {
    const { spool } = this.#segments;
    for (const number of numbers) await spool.remove(path, number);
    if (numbers.length > 0) await spool.tidy(path);
  }

  /** The segments of a path to append to. A plain object becomes the first segment. */
  async #asSegments(path: string) {
    const key = this.#keyOf(path);
    const [plain, stored] = await Promise.all([
      this.#bucket.head(key),
      this.#segments.stored(path),
    ]);
    if (!plain) return stored;
    // Until the plain object is removed, it is the whole object, whatever a kill leaves beside it.
    for (const segment of stored) await this.#bucket.remove(segment.key);
    await this.#bucket.copy(key, this.#keyOf(segmentPath(path, 0)));
    await this.#bucket.remove(key);
    return await this.#segments.stored(path);
  }

  async #appended(path: string, error: unknown): Promise<RandomReader> {
    if (asSluiceError(error).code !== "NOT_FOUND" || !mayGrow(path)) throw error;
    const reader = await this.#segments.open(path);
    if (!reader) throw error;
    return reader;
  }

  async #listed(held: { path: string; bytes: number; lastSegment: number }): Promise<StoredFile> {
    const { path, bytes, lastSegment } = held;
    if (lastSegment < 0) return { path, bytes };
    return { path, bytes: bytes + (await this.#segments.spooledBytes(path, lastSegment)) };
  }

  #keyOf(path: string): string {
    return this.#options.prefix + path;
  }

  #pathOf(key: string): string {
    return key.slice(this.#options.prefix.length);
  }
}

/** What all of the paths begin with. */
function sharedStart(paths: readonly string[]): string {
  const sorted = paths.toSorted();
  const [first, last] = [sorted[0]!, sorted.at(-1)!];
  let start = "";
  for (const character of first) {
    if (!last.startsWith(start + character)) break;
    start += character;
  }
  return start;
}

/** The order of an object store's listings. */
function byUtf8(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Finds and reads segments. */
class Segments {
  readonly #bucket: S3Bucket;
  readonly #prefix: string;
  readonly spool: Spool;

  constructor(bucket: S3Bucket, prefix: string, spool: Spool) {
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.spool = spool;
  }

  /** All segments of a path in the store, in order. */
  async stored(path: string): Promise<ObjectFacts[]> {
    const found: ObjectFacts[] = [];
    for await (const facts of this.#bucket.list(this.#prefix + segmentPrefix(path))) {
      if (segmentOf(facts.key)) found.push(facts);
    }
    return found;
  }

  /** A reader of everything appended to a path until now; undefined if it never had an appender. */
  async open(path: string): Promise<RandomReader | undefined> {
    // Local segments first: a segment leaves this machine only after it is in the store.
    const spooled: [number, RandomReader][] = [];
    let stored: ObjectFacts[];
    try {
      for (const number of await this.spool.numbers(path)) {
        const reader = await this.spool.open(path, number);
        if (reader) spooled.push([number, reader]);
      }
      stored = await this.stored(path);
    } catch (error) {
      for (const [, reader] of spooled) await reader.close();
      throw error;
    }
    const last = stored.length === 0 ? -1 : segmentOf(stored.at(-1)!.key)!.number;
    const pieces = stored.map((facts) => this.#bucket.readerOf(facts));
    for (const [number, reader] of spooled) {
      if (stored.length > 0 && number > last) pieces.push(reader);
      else await reader.close();
    }
    return stored.length === 0 ? undefined : new JoinedReader(pieces);
  }

  /** Bytes of a path's segments that only this machine has. */
  async spooledBytes(path: string, lastStored: number): Promise<number> {
    let bytes = 0;
    for (const number of await this.spool.numbers(path)) {
      if (number <= lastStored) continue;
      const reader = await this.spool.open(path, number);
      bytes += reader?.bytes ?? 0;
      await reader?.close();
    }
    return bytes;
  }
}

/** Reads several pieces as one object. */
class JoinedReader implements RandomReader {
  readonly bytes: number;
  readonly #pieces: { start: number; reader: RandomReader }[] = [];

  constructor(readers: readonly RandomReader[]) {
    let start = 0;
    for (const reader of readers) {
      this.#pieces.push({ start, reader });
      start += reader.bytes;
    }
    this.bytes = start;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const end = Math.min(offset + length, this.bytes);
    const touched = this.#pieces.filter(
      ({ start, reader }) => start < end && start + reader.bytes > offset,
    );
    const parts = await Promise.all(
      touched.map(({ start, reader }) => {
        const from = Math.max(0, offset - start);
        return reader.read(from, end - start - from);
      }),
    );
    return parts.length === 1 ? parts[0]! : new Uint8Array(Buffer.concat(parts));
  }

  async close(): Promise<void> {
    for (const { reader } of this.#pieces) await reader.close();
  }
}
