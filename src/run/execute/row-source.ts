import type { InputRow } from "../../data/row.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import type { RowArrangement, TaskAttempt, UpcomingRows } from "../attempt/attempt.ts";

/** Bytes of rows to read ahead of the engine, for each task. */
export const maxReadAheadBytes = 32 * 1024 * 1024;

/** An attempt in work: its open rows, read ahead of the engine within limits, and its requests. */
export class RowSource implements UpcomingRows {
  readonly attempt: TaskAttempt;
  readonly abort = new AbortController();
  inFlight = 0;
  /** Taken rows without an outcome yet. */
  rowsInPlay = 0;
  /** False once the attempt has ended: later answers are dropped. */
  isOpen = true;
  readonly #batches: AsyncIterator<InputRow[]>;
  readonly #onChange: () => void;
  #rows: InputRow[] = [];
  #at = 0;
  #ahead: InputRow[][] = [];
  /** The first rows of a common request; the others are not at hand. */
  #together: InputRow[] = [];
  #aheadRows = 0;
  #aheadChars = 0;
  #isReading = false;
  #hasEnded = false;
  error: SluiceError | undefined;

  /** `onChange` is called when rows arrive, at their end, or when reading fails. */
  constructor(attempt: TaskAttempt, onChange: () => void, arrange?: RowArrangement) {
    this.attempt = attempt;
    this.#batches = attempt.readOpenRows(arrange)[Symbol.asyncIterator]();
    this.#onChange = onChange;
    this.#readAhead();
  }

  /** The next row, or undefined when none is at hand (see `isExhausted`). */
  take(): InputRow | undefined {
    if (this.#at >= this.#rows.length && !this.#turn()) return undefined;
    this.attempt.noteTaken(this);
    return this.#rows[this.#at++];
  }

  /**
   * The next rows of a common request, or undefined if not all of them are at hand: the open ones
   * of `rowsTogether` neighbours.
   */
  takeTogether(): readonly InputRow[] | undefined {
    const { rowsTogether: size } = this.attempt;
    if (size === 1) {
      const row = this.take();
      return row && [row];
    }
    for (let next = this.#peek(); next !== undefined; next = this.#peek()) {
      const [first = next] = this.#together;
      const isOther = Math.floor(first.index / size) !== Math.floor(next.index / size);
      if (isOther) return this.#endGroup();
      this.#together.push(this.take()!);
      if (next.index % size === size - 1) return this.#endGroup();
    }
    return this.#hasEnded && this.#together.length > 0 ? this.#endGroup() : undefined;
  }

  #peek(): InputRow | undefined {
    if (this.#at >= this.#rows.length && !this.#turn()) return undefined;
    return this.#rows[this.#at];
  }

  #endGroup(): readonly InputRow[] {
    const group = this.#together;
    this.#together = [];
    return group;
  }

  upcoming(most: number): number[] {
    const indexes: number[] = [];
    let at = this.#at;
    for (const batch of [this.#rows, ...this.#ahead]) {
      for (; at < batch.length; at++) {
        if (indexes.push(batch[at]!.index) === most) return indexes;
      }
      at = 0;
    }
    return indexes;
  }

  /** True if every row was taken. */
  get isExhausted(): boolean {
    return this.#hasEnded && this.buffered === 0;
  }

  /** Why the attempt cannot continue: reading failed, or rows are missing. */
  get fault(): SluiceError | undefined {
    const { attempt, rowsInPlay } = this;
    if (this.error || !this.isExhausted || rowsInPlay > 0 || attempt.complete) return this.error;
    const detail = `task ${attempt.task.task}: the input has fewer rows than were planned`;
    return new SluiceError("INPUT_CHANGED", detail);
  }

  /** Rows at hand. */
  get buffered(): number {
    return this.#together.length + this.#rows.length - this.#at + this.#aheadRows;
  }

  async close(): Promise<void> {
    this.isOpen = false;
    this.#hasEnded = true;
    this.#rows = [];
    this.#together = [];
    this.#ahead = [];
    this.#aheadRows = 0;
    await this.#batches.return?.();
  }

  #turn(): boolean {
    const batch = this.#ahead.shift();
    if (!batch) return false;
    this.#rows = batch;
    this.#at = 0;
    this.#aheadRows -= batch.length;
    this.#aheadChars -= charsOf(batch);
    this.#readAhead();
    return true;
  }

  #readAhead(): void {
    const isFull =
      this.#aheadRows >= limits.maxReadAheadRows || this.#aheadChars >= maxReadAheadBytes;
    if (this.#isReading || this.#hasEnded || isFull) return;
    this.#isReading = true;
    this.#batches.next().then(
      ({ done, value }) => {
        this.#isReading = false;
        if (this.#hasEnded) return;
        if (done) {
          this.#hasEnded = true;
        } else {
          this.#ahead.push(value);
          this.#aheadRows += value.length;
          this.#aheadChars += charsOf(value);
        }
        this.#readAhead();
        this.#onChange();
      },
      (error: unknown) => {
        this.#isReading = false;
        this.#hasEnded = true;
        this.error = asSluiceError(error);
        this.#onChange();
      },
    );
  }
}

function charsOf(rows: readonly InputRow[]): number {
  let chars = 0;
  for (const row of rows) chars += row.raw.length;
  return chars;
}
