import type { Column } from "../columns.ts";
import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";
import type { CutRule, RowReadOptions, SliceRange } from "./format.ts";

/**
 * One file format: how planning cuts a file, and how a range of it is read. Every implementation
 * passes `formatConformance` of `test/conformance`.
 */
export interface RowFormat {
  readonly name: string;
  /** File name endings, with the dot; a compression's ending may follow them. */
  readonly extensions: readonly string[];
  /** True if a file's bytes are its content even if they are compressed. */
  readonly takesBytesAsTheyAre?: boolean;
  /**
   * One streaming pass that counts records and cuts the file. Every byte belongs to exactly one
   * range; in a format that does not store row after row, to at least one. A file without records
   * has no range. Memory does not grow. `reader.bytes` may be infinite, if the length is known only
   * at the end of the content.
   *
   * @throws SluiceError `INPUT_UNREADABLE` if the file as a whole is not of this format.
   */
  scan(reader: RandomReader, file: string, rule: CutRule): AsyncIterable<SliceRange>;
  /**
   * The rows of one range in order, in arrays of bounded size. `firstIndex` is the index of the
   * first row. A broken record is a row with an `error`.
   *
   * @throws SluiceError `INPUT_CHANGED`, once the range was read to its end, if its bytes are not
   *   the planned ones.
   */
  read(
    reader: RandomReader,
    slice: Slice,
    firstIndex: number,
    options: RowReadOptions,
  ): AsyncIterable<InputRow[]>;
  /**
   * The columns that the file itself names; absent for formats without columns, such as JSON Lines.
   *
   * @throws SluiceError `INPUT_UNREADABLE`
   */
  columns?(reader: RandomReader, file: string): Promise<readonly Column[]>;
  /** The number of rows that the file itself names, if that takes no pass over the file. */
  rowCount?(reader: RandomReader, file: string): Promise<number>;
}
