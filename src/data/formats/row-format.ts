import type { Column } from "../columns.ts";
import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";
import type { CutRule, RowReadOptions, SliceRange } from "./format.ts";

/**
 * One file format: how it is cut while planning, and how a range of it is read. Every
 * implementation passes `sluice/testing`'s `formatConformance`.
 */
export interface RowFormat {
  readonly name: string;
  /** File name endings, with the dot; a compression's ending may follow them. */
  readonly extensions: readonly string[];
  /** True where the bytes of a file are its content as it lies there, compressed or not. */
  readonly takesBytesAsTheyAre?: boolean;
  /**
   * One streaming pass that counts records and cuts the file. Every byte belongs to exactly one
   * range (of formats that do not lie row by row in the file: to at least one); a file without
   * records gives none. Memory stays flat. `reader.bytes` may be infinite, where only the end of
   * the content tells its length.
   *
   * @throws SluiceError `INPUT_UNREADABLE` where the file as a whole is not of this format.
   */
  scan(reader: RandomReader, file: string, rule: CutRule): AsyncIterable<SliceRange>;
  /**
   * The rows of one range in order, in arrays of bounded size. `firstIndex` is the index of its
   * first row. Faults of single records are rows with an `error`.
   *
   * @throws SluiceError `INPUT_CHANGED` (when the range was read to its end) where the bytes are
   *   not those that were planned.
   */
  read(
    reader: RandomReader,
    slice: Slice,
    firstIndex: number,
    options: RowReadOptions,
  ): AsyncIterable<InputRow[]>;
  /**
   * The columns that the file itself names; absent where a format names none, as JSON Lines.
   *
   * @throws SluiceError `INPUT_UNREADABLE`
   */
  columns?(reader: RandomReader, file: string): Promise<readonly Column[]>;
  /** How many rows the file says that it holds, where that takes no pass over it. */
  rowCount?(reader: RandomReader, file: string): Promise<number>;
}
