import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";
import type { Format } from "./format.ts";

/** A format that can leave rows unparsed for a reader that needs only their text. */
export interface RowFormat extends Format {
  /** With `parse` false, rows may have neither `value` nor `error`. */
  read(
    reader: RandomReader,
    slice: Slice,
    firstIndex: number,
    maxLineBytes: number,
    parse?: boolean,
  ): AsyncIterable<InputRow[]>;
}
