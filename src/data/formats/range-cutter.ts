import type { Hash } from "node:crypto";
import { sha256Stream } from "../../foundation/hashing.ts";
import type { CutRule, SliceRange } from "./format.ts";

/** Number of records of range `range` (from 0) of a file. */
export function rowsOfRange(rule: CutRule, range: number): number {
  const { firstCutRows, everyRows, longer, counts } = rule;
  if (counts) return counts[range] ?? everyRows;
  if (range === 0) return firstCutRows;
  return longer !== undefined && range <= longer.ranges ? longer.rows : everyRows;
}

/** Groups records into ranges with the number of rows of the rule, each with its checksum. */
export class RangeCutter {
  readonly #rule: CutRule;
  #ranges = 0;
  #maxRows: number;
  #rows = 0;
  #start = 0;
  #firstLine = 1;
  #hash: Hash = sha256Stream();
  #finished: SliceRange[] = [];

  constructor(rule: CutRule) {
    this.#rule = rule;
    this.#maxRows = rowsOfRange(rule, 0);
  }

  /** True if the next record belongs to the next range. */
  get isFull(): boolean {
    return this.#rows >= this.#maxRows;
  }

  /** Adds bytes to the current range, in order. */
  add(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  count(): void {
    this.#rows++;
  }

  /** Ends the current range before `offset`, which is on `line`. */
  cut(offset: number, line: number): void {
    this.#finished.push({
      start: this.#start,
      end: offset,
      rows: this.#rows,
      firstLine: this.#firstLine,
      sha256: this.#hash.digest("hex"),
    });
    this.#start = offset;
    this.#firstLine = line;
    this.#rows = 0;
    this.#maxRows = rowsOfRange(this.#rule, ++this.#ranges);
    this.#hash = sha256Stream();
  }

  /** Ends the last range, unless the file has no record. */
  end(offset: number): void {
    if (this.#rows > 0) this.cut(offset, this.#firstLine);
  }

  /** The ranges that ended since the last call. */
  take(): SliceRange[] {
    const finished = this.#finished;
    this.#finished = [];
    return finished;
  }
}

/** Cuts at record starts that a scanner finds within chunks of the file. */
export class ChunkCutter {
  readonly #cutter: RangeCutter;
  #chunk: Uint8Array = new Uint8Array(0);
  /** Offset in the chunk up to which its bytes belong to ended ranges. */
  #hashed = 0;
  #base = 0;

  constructor(rule: CutRule) {
    this.#cutter = new RangeCutter(rule);
  }

  /** Offset in the file of the current chunk. */
  get base(): number {
    return this.#base;
  }

  begin(chunk: Uint8Array): void {
    this.#chunk = chunk;
    this.#hashed = 0;
  }

  /** Reports a record that starts at `offset` in the file, within the current chunk. */
  start(offset: number, line: number): void {
    if (this.#cutter.isFull) {
      const at = offset - this.#base;
      this.#cutter.add(this.#chunk.subarray(this.#hashed, at));
      this.#hashed = at;
      this.#cutter.cut(offset, line);
    }
    this.#cutter.count();
  }

  /** Ends the chunk and returns the ranges that ended within it. */
  endChunk(): SliceRange[] {
    this.#cutter.add(this.#chunk.subarray(this.#hashed));
    this.#base += this.#chunk.length;
    return this.#cutter.take();
  }

  /** Ends the last range and returns it. */
  end(): SliceRange[] {
    this.#cutter.end(this.#base);
    return this.#cutter.take();
  }
}
