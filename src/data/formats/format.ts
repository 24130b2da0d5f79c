import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";

/** Where a format may cut a file into slices. */
export interface CutRule {
  /** Records before the first cut. */
  firstCutRows: number;
  /** Records between later cuts. */
  everyRows: number;
  maxLineBytes: number;
}

/** What `Slice` says of a range, without the file's name and format. */
export type SliceRange = Omit<Slice, "file" | "format">;

/** One file format: how it is cut while planning, and how a range of it is read. */
export interface Format {
  readonly name: string;
  /** File name endings, with the dot. */
  readonly extensions: readonly string[];
  /**
   * One streaming pass that counts records and cuts the file. Every byte belongs to exactly one
   * range; a file without records gives none. Memory stays flat.
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
    maxLineBytes: number,
  ): AsyncIterable<InputRow[]>;
}
