import { limits } from "../foundation/limits.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Requests that run ahead of one reader. */
const rangesAhead = 4;

/** Bytes that all readers of a process hold ahead. */
const maxReadAheadBytesOfFiles = 64 * 1024 * 1024;

/** An object of which any range of bytes can be asked for, at the price of a round trip. */
export interface RangeSource {
  readonly bytes: number;
  /** Nothing is asked for ahead from here on; default: the object's end. */
  readonly aheadEnd?: number;
  /** Asked for ahead from the first read on: of what is surely read on; default: nothing. */
  readonly aheadBytes?: number;
  /** The bytes from `start` up to and without `end`, all of them. */
  fetch(start: number, end: number, signal: AbortSignal): Promise<Uint8Array>;
  close?(): Promise<void>;
}

/** Bytes that readers may hold ahead of what was asked for, together. */
export class ReadAheadBudget {
  #freeBytes: number;

  constructor(bytes: number = maxReadAheadBytesOfFiles) {
    this.#freeBytes = bytes;
  }

  /** True where there is room, which is then taken. */
  take(bytes: number): boolean {
    if (bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#freeBytes += bytes;
  }
}

/** A range that was asked for. */
interface Block {
  start: number;
  end: number;
  data: Promise<Uint8Array>;
  /** Bytes of the budget that it holds; 0 once a reader waits for it. */
  budgetBytes: number;
  abort: AbortController;
}

/**
 * A reader over ranges. Where it is read on from where it was read to, the ranges that come next
 * are asked for ahead, several at once, as far ahead as was read on already; a long range is asked
 * for in several pieces at once.
 *
 * @param budget shared by all readers of a process, so that many open ones stay small.
 * @example
 * const reader = readAhead({ bytes, fetch: (start, end) => bucket.get(key, start, end) }, budget);
 */
export function readAhead(source: RangeSource, budget: ReadAheadBudget): RandomReader {
  return new ReadAheadReader(source, budget);
}

class ReadAheadReader implements RandomReader {
  readonly bytes: number;
  readonly #source: RangeSource;
  readonly #budget: ReadAheadBudget;
  readonly #aheadEnd: number;
  /** Ranges without gaps between them, ascending: what is held and what is under way. */
  #blocks: Block[] = [];
  /** Where the blocks end, or would begin. */
  #end = 0;
  /** Where the last read ended, if there was one, and how much was read without a jump. */
  #readEnd: number | undefined;
  #streakBytes = 0;

  constructor(source: RangeSource, budget: ReadAheadBudget) {
    this.bytes = source.bytes;
    this.#source = source;
    this.#budget = budget;
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
      // Whoever reads again asks again.
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

  /** Lets go of what lies before `offset`, and of all where nothing of it is held. */
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
      if (!this.#budget.take(bytes)) return;
      this.#ask(end, bytes);
    }
  }

  #ask(end: number, budgetBytes: number): void {
    const abort = new AbortController();
    const data = this.#source.fetch(this.#end, end, abort.signal);
    // It is reported to whoever reads there, or to nobody.
    data.catch(() => {});
    this.#blocks.push({ start: this.#end, end, data, budgetBytes, abort });
    this.#end = end;
  }

  #drop(isDropped: (block: Block) => boolean): void {
    this.#blocks = this.#blocks.filter((block) => {
      if (!isDropped(block)) return true;
      // One without a budget is waited for, or was.
      if (block.budgetBytes > 0) block.abort.abort(new Error("nobody reads there any more"));
      this.#giveBack(block);
      return false;
    });
  }

  #giveBack(block: Block): void {
    this.#budget.give(block.budgetBytes);
    block.budgetBytes = 0;
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
