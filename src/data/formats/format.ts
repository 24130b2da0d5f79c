import type { JsonObject } from "../../foundation/json.ts";
import type { Slice } from "../row.ts";

/** Names of all input formats, for `input.format`. */
export const inputFormats = [
  "jsonl",
  "json",
  "csv",
  "tsv",
  "parquet",
  "arrow",
  "text",
  "text-file",
  "files",
  "openai-batch",
] as const;

/** The rule by which a format cuts a file into ranges. */
export interface CutRule {
  /** Records before the first cut. */
  firstCutRows: number;
  /** Records between later cuts. */
  everyRows: number;
  /** This many ranges after the first cut have this many records each; default: none. */
  longer?: { ranges: number; rows: number } | undefined;
  /** Records of each of the first ranges, instead of all the above; then `everyRows`. */
  counts?: readonly number[] | undefined;
  maxLineBytes: number;
  /**
   * A range may have more records than requested, so that it ends where one of the file's own
   * blocks ends, such as a row group of Parquet. Default false.
   */
  atOwnBorders?: boolean;
  /** Fields that rows keep, the same as when the ranges are read; other fields may be ignored. */
  columns?: readonly string[] | undefined;
}

/** The job's options for one of its inputs: which fields its rows have, and of which types. */
export interface SourceOptions {
  /** Fields that rows keep, in this order; default: all. */
  columns?: readonly string[] | undefined;
  /**
   * JSON Schema of a row. Formats whose values are text convert them to the types of the schema;
   * `readRows` checks the rows of all formats against it.
   */
  schema?: JsonObject | undefined;
}

/** How to read the rows of a slice. */
export interface RowReadOptions extends SourceOptions {
  /** The same value as when the slice was cut. */
  maxLineBytes: number;
  /** False if only `raw` is needed: rows may then lack `value` and `error`. Default true. */
  parse?: boolean;
  /** Called with a place in the file before it is decoded, for an error if decoding is ended. */
  onPlace?: (place: string) => void;
}

/** The range in a `Slice`, without the file's name and format. */
export type SliceRange = Omit<Slice, "file" | "format">;
