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
  /** Its bytes in base64, if `raw` cannot be them because they are not UTF-8. */
  rawBase64?: string;
  value?: JsonObject;
  error?: SluiceError;
  /** Name of its dataset, where the job has datasets. */
  dataset?: string;
}

/** How a file is written, where neither its ending nor its format tells. */
export interface FileForm {
  /** The encoding of text, as the Encoding Standard names it; default: UTF-8. */
  encoding?: string | undefined;
  /** One ASCII character between the fields of CSV; default: that of the format. */
  delimiter?: string | undefined;
  /** The keys that lead to the list of rows in JSON, with dots between them. */
  records?: string | undefined;
}

/** A contiguous range of one input file, cut at record borders while planning. */
export interface Slice {
  file: string;
  format: string;
  /** Byte range in the file: from `start` up to and without `end`. */
  start: number;
  end: number;
  /** Records of the slice. */
  rows: number;
  /** Records of the range that belong to slices before it; default 0. */
  skipRows?: number;
  /** Index of its first row, where that does not follow the slice before. */
  firstRow?: number;
  /** Line of the file on which the range begins, from 1. */
  firstLine: number;
  /** What begins the file and names the fields, where the range does not begin there. */
  header?: SliceHeader;
  /** SHA-256 of the range's bytes; of Parquet and Arrow, of all by which its rows are read. */
  sha256: string;
  /** What the file's server said of its content, where it lies on one. */
  etag?: string;
  /** Where a list wants the results of the file's rows. */
  output?: string;
  /** Field that identifies a row of this file, where the job names one. */
  id?: string;
  /** Name of the dataset that the file belongs to, where the job has datasets. */
  dataset?: string;
  /** How the file is written, where the job says so. */
  form?: FileForm;
  /** Which of the job's inputs named the file, from 0, where that one says how it is read. */
  source?: number;
}

/** The first bytes of a file, up to the end of its header. */
export interface SliceHeader {
  bytes: number;
  /** Their SHA-256. */
  sha256: string;
}
