import type { S3Bucket } from "../../s3/bucket.ts";
import type { ObjectFacts } from "../../s3/requests.ts";
import type { RandomReader } from "../storage.ts";
import { segmentOf, segmentPrefix } from "./segment-names.ts";
import type { Spool } from "./spool.ts";

/** Finds and reads what appenders wrote. */
export class Segments {
  readonly #bucket: S3Bucket;
  readonly #prefix: string;
  readonly spool: Spool;

  constructor(bucket: S3Bucket, prefix: string, spool: Spool) {
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.spool = spool;
  }

  /** All of a path's segments in the store, in order. */
  async stored(path: string): Promise<ObjectFacts[]> {
    const found: ObjectFacts[] = [];
    for await (const facts of this.#bucket.list(this.#prefix + segmentPrefix(path))) {
      if (segmentOf(facts.key)) found.push(facts);
    }
    return found;
  }

  /**
   * A reader of all that was appended to a path until now, or undefined where it has no appender
   * and never had one.
   */
  async open(path: string): Promise<RandomReader | undefined> {
    // First those of this machine: a segment leaves it only once it is in the store.
    const spooled: [number, RandomReader][] = [];
    for (const number of await this.spool.numbers(path)) {
      const reader = await this.spool.open(path, number);
      if (reader) spooled.push([number, reader]);
    }
    const stored = await this.stored(path);
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

/** Pieces one after another, read as one. */
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
