import { limits } from "../foundation/limits.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Most requests that one reader sends ahead. */
const rangesAhead = 4;

/** Most bytes that all readers of a process hold ahead together. */
const maxReadAheadBytesOfFiles = 64 * 1024 * 1024;

/** An object that serves any range of its bytes, each for the price of a round trip. */
export interface RangeSource {
  readonly bytes: number;
  /** Nothing is read ahead from this offset on; default: the object's end. */
  readonly aheadEnd?: number;
  /** Bytes to read ahead from the first read on, if they are certainly needed; default 0. */
  readonly aheadBytes?: number;
  /** All bytes from `start` up to, but without, `end`. */
  fetch(start: number, end: number, signal: AbortSignal): Promise<Uint8Array>;
  close?(): Promise<void>;
}

/** The bytes that readers together may hold ahead of their reads. */
export class ReadAheadMemory {
  #freeBytes: number;

  constructor(bytes: number = maxReadAheadBytesOfFiles) {
    this.#freeBytes = bytes;
  }

  /** Takes that many bytes and returns true; without room takes nothing and returns false. */
  take(bytes: number): boolean {
    if (bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#freeBytes += bytes;
  }
}

/** A range that was requested. */
interface Block {
  start: number;
  end: number;
  data: Promise<Uint8Array>;
  /** Bytes of the memory that it holds; 0 once a reader waits for the range. */
  heldBytes: number;
  abort: AbortController;
}

/**
 * A reader over ranges. While reads continue where the last one ended, it requests the next ranges
 * ahead, several at once, and as many bytes ahead as were read in a row. It splits a long range
 * into requests that run at once.
 *
 * @param memory shared by all readers of a process, so that many open readers stay small.
 * @example
 * const reader = readAhead({ bytes, fetch: (start, end) => bucket.get(key, start, end) }, memory);
 */
export function readAhead(source: RangeSource, memory: ReadAheadMemory): RandomReader {
  return new ReadAheadReader(source, memory);
}

class ReadAheadReader implements RandomReader {
  readonly bytes: number;
  readonly #source: RangeSource;
  readonly #memory: ReadAheadMemory;
  readonly #aheadEnd: number;
  /** Ranges held or requested, ascending and without gaps. */
  #blocks: Block[] = [];
  /** Where the last block ends, or the first would begin. */
  #end = 0;
  /** Where the last read ended, and how many bytes were read without a jump. */
  #readEnd: number | undefined;
  #streakBytes = 0;

  constructor(source: RangeSource, memory: ReadAheadMemory) {
    this.bytes = source.bytes;
    this.#source = source;
    this.#memory = memory;
    this.#aheadEnd = Math.min(source.bytes, source.aheadEnd ?? source.bytes);
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const end = Math.min(offset + length, this.bytes);
    if (end <= offset) return new Uint8Array();
    this.#noteRead(offset, end);
    this.#moveTo(offset);
    this.#demand(end);
    const wanted = this.#blocks.filter((block) => block.start < end);
    for (const block of wanted) this.#giveBack(block);
    this.#drop((block) => block.end <= end);
    this.#askAhead(end);
    try {
      return await joined(wanted, offset, end);
    } catch (error) {
      // The next read requests the range again.
      this.#drop(() => true);
      this.#end = offset;
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#drop(() => true);
    await this.#source.close?.();
  }

  #noteRead(start: number, end: number): void {
    const { aheadBytes = 0 } = this.#source;
    const isOn = start === (this.#readEnd ?? (aheadBytes > 0 ? start : 0));
    this.#streakBytes = isOn ? Math.max(aheadBytes, this.#streakBytes + end - start) : 0;
    this.#readEnd = end;
  }

  /** Drops the bytes before `offset`, or all of them if `offset` is not held. */
  #moveTo(offset: number): void {
    const first = this.#blocks[0]?.start ?? this.#end;
    const isHeld = offset >= first && offset <= this.#end;
    this.#drop((block) => !isHeld || block.end <= offset);
    if (this.#blocks.length === 0) this.#end = offset;
  }

  #demand(end: number): void {
    while (this.#end < end) {
      this.#ask(Math.min(end, this.#end + limits.maxRangeBytes), 0);
    }
  }

  #askAhead(readEnd: number): void {
    const aheadBytes = Math.min(this.#streakBytes, limits.maxRangeBytes * rangesAhead);
    const until = Math.min(this.#aheadEnd, readEnd + aheadBytes);
    const size = Math.max(
      limits.readChunkBytes,
      Math.min(limits.maxRangeBytes, Math.ceil(aheadBytes / rangesAhead)),
    );
    while (this.#end < until) {
      const end = Math.min(this.#aheadEnd, this.#end + size);
      const bytes = end - this.#end;
      if (!this.#memory.take(bytes)) return;
      this.#ask(end, bytes);
    }
  }

  #ask(end: number, heldBytes: number): void {
    const abort = new AbortController();
    const data = this.#source.fetch(this.#end, end, abort.signal);
    // Reported to the reader of this range, if one comes.
    data.catch(() => {});
    this.#blocks.push({ start: this.#end, end, data, heldBytes, abort });
    this.#end = end;
  }

  #drop(isDropped: (block: Block) => boolean): void {
    this.#blocks = this.#blocks.filter((block) => {
      if (!isDropped(block)) return true;
      // A block without a memory has a reader, or had one.
      if (block.heldBytes > 0) block.abort.abort(new Error("nobody reads there any more"));
      this.#giveBack(block);
      return false;
    });
  }

  #giveBack(block: Block): void {
    this.#memory.give(block.heldBytes);
    block.heldBytes = 0;
  }
}

async function joined(blocks: readonly Block[], start: number, end: number): Promise<Uint8Array> {
  const part = (block: Block, data: Uint8Array) =>
    data.subarray(Math.max(0, start - block.start), end - block.start);
  if (blocks.length === 1) return part(blocks[0]!, await blocks[0]!.data);
  const whole = Buffer.allocUnsafe(end - start);
  const fill = async (block: Block) =>
    whole.set(part(block, await block.data), Math.max(0, block.start - start));
  await Promise.all(blocks.map(fill));
  return whole;
}
