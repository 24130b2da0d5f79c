import type { Column } from "../columns.ts";
import type { CarriedGroup } from "./parquet/carried-groups.ts";

export interface EncoderOptions {
  /** Columns of the whole file; formats without a header look at none of it. */
  columns: readonly Column[];
  /** For JSON: a file of one row is that row alone, without a list. */
  isObject?: boolean | undefined;
}

/**
 * Turns rows into the bytes of one file. Bytes come as soon as they are ready, so that memory does
 * not grow with the file.
 */
export interface RowEncoder {
  /** Takes rows as JSON texts of objects; gives what of the file is complete. */
  add(lines: readonly string[]): Promise<Uint8Array[]>;
  /**
   * Takes over columns of the rows whose lines come next, as another file has them, of formats that
   * can; the lines tell the other columns. What it gives is to be written before it is asked on.
   */
  carry?(group: CarriedGroup): AsyncIterable<Uint8Array[]>;
  /** The rest of the file. No call follows it. */
  end(): Promise<Uint8Array[]>;
}
