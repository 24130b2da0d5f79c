import type { SluiceError } from "../foundation/errors.ts";
import type { JsonObject } from "../foundation/json.ts";

/** One record read from an input. Exactly one of `value` and `error` is set. */
export interface InputRow {
  /** Its stable index over all inputs. Broken records count, blank lines do not. */
  index: number;
  /** Path of its file, as in the plan. */
  file: string;
  /** Line of its file on which it begins, from 1. */
  line: number;
  /**
   * Its text in the input, without the line end; results are spliced into it. For formats other
   * than JSON, the JSON text of `value`.
   */
  raw: string;
  /** Its bytes in base64, if they are not UTF-8 and `raw` is therefore not exact. */
  rawBase64?: string;
  value?: JsonObject;
  error?: SluiceError;
  /** Name of its dataset, if the job has datasets. */
  dataset?: string;
}

/** How a file is written, if neither its ending nor its format says so. */
export interface FileForm {
  /** The encoding of text, as the Encoding Standard names it; default: UTF-8. */
  encoding?: string | undefined;
  /** The ASCII character between the fields of CSV; default: that of the format. */
  delimiter?: string | undefined;
  /** The keys that lead to the list of rows in JSON, joined by dots. */
  records?: string | undefined;
}

/** A contiguous range of one input file, cut at record boundaries during planning. */
export interface Slice {
  file: string;
  format: string;
  /** Byte range in the file: from `start` up to, but without, `end`. */
  start: number;
  end: number;
  /** Number of records in the slice. */
  rows: number;
  /** Records at the start of the range that belong to earlier slices; default 0. */
  skipRows?: number;
  /** Index of its first row, if that does not follow from the slice before. */
  firstRow?: number;
  /** Line of the file on which the range begins, from 1. */
  firstLine: number;
  /** The header of the file, which names the fields, if the range does not begin with it. */
  header?: SliceHeader;
  /** SHA-256 of the range's bytes; for Parquet and Arrow, of all bytes that its rows depend on. */
  sha256: string;
  /** The file's ETag, if a server named one. */
  etag?: string;
  /** Where a list says that the results of the file's rows go. */
  output?: string;
  /** Field that identifies a row of this file, if the job names one. */
  id?: string;
  /** Name of the file's dataset, if the job has datasets. */
  dataset?: string;
  /** How the file is written, if the job says so. */
  form?: FileForm;
  /** Index of the job's input that named the file, from 0, if that input has options of its own. */
  source?: number;
}

/** The first bytes of a file, up to and including its header. */
export interface SliceHeader {
  bytes: number;
  /** SHA-256 of these bytes. */
  sha256: string;
}
