import type { SluiceError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";

/** One record read from an input. Exactly one of `value` and `error` is set. */
export interface InputRow {
  /** Its stable index over all inputs: broken records count, blank lines do not. */
  index: number;
  /** Path of its file, as planned. */
  file: string;
  /** Line of its file where it begins, from 1. */
  line: number;
  /**
   * Its text as it stands in the input (without the line's end): what results are spliced into.
   * For formats that are not JSON, the JSON text of `value`.
   */
  raw: string;
  /** Its bytes in base64, where `raw` cannot be them: they are no UTF-8. */
  rawBase64?: string;
  value?: JsonObject;
  error?: SluiceError;
  /** Name of its dataset, where the job has datasets. */
  dataset?: string;
}

/** A contiguous range of one input file, cut at record borders while planning. */
export interface Slice {
  file: string;
  format: string;
  /** Byte range in the file: from `start` up to and without `end`. */
  start: number;
  end: number;
  /** Records in the range. */
  rows: number;
  /** Line of the file on which the range begins, from 1. */
  firstLine: number;
  /** SHA-256 of the range's bytes. */
  sha256: string;
  /** Field that identifies a row of this file, where the job names one. */
  id?: string;
  /** Name of the dataset that the file belongs to, where the job has datasets. */
  dataset?: string;
}
