import type { Column } from "../columns.ts";
import type { CarriedGroup } from "./parquet/carried-groups.ts";

export interface EncoderOptions {
  /** Columns of the whole file; formats without a header ignore them. */
  columns: readonly Column[];
  /** For JSON: write a file with a single row as that row, not as a list. */
  isObject?: boolean | undefined;
}

/**
 * Turns rows into the bytes of one file. Bytes are returned as soon as they are ready, so memory
 * does not grow with the file.
 */
export interface RowEncoder {
  /** Adds rows, given as JSON texts of objects. Returns the bytes that are complete. */
  add(lines: readonly string[]): Promise<Uint8Array[]>;
  /**
   * For formats that can copy columns from another file: uses the columns of `group` for the rows
   * whose lines come next; these lines hold the other columns. Write the returned bytes before
   * requesting more.
   */
  carry?(group: CarriedGroup): AsyncIterable<Uint8Array[]>;
  /** The rest of the file; the last call. */
  end(): Promise<Uint8Array[]>;
}
