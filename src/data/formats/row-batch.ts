import type { InputRow } from "../row.ts";

/** Most rows and characters of one array of rows: small enough to be garbage-collected young. */
const maxBatchRows = 250;
const maxBatchChars = 1024 * 1024;

/** Groups rows into arrays of bounded size. */
export class RowBatch {
  #rows: InputRow[] = [];
  #chars = 0;

  get isFull(): boolean {
    return this.#rows.length >= maxBatchRows || this.#chars >= maxBatchChars;
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0;
  }

  add(row: InputRow): void {
    this.#rows.push(row);
    this.#chars += row.raw.length;
  }

  take(): InputRow[] {
    const rows = this.#rows;
    this.#rows = [];
    this.#chars = 0;
    return rows;
  }
}
