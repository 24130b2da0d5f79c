import type { JsonObject } from "../../foundation/json.ts";
import type { Slice } from "../row.ts";

/** Names of all formats that are read, as `input.format` takes them. */
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

/** Where a format may cut a file into slices. */
export interface CutRule {
  /** Records before the first cut. */
  firstCutRows: number;
  /** Records between later cuts. */
  everyRows: number;
  /** So many ranges after the first cut have so many records each; default: none. */
  longer?: { ranges: number; rows: number } | undefined;
  /** Records of the first ranges, one by one, in place of all of the above; then `everyRows`. */
  counts?: readonly number[] | undefined;
  maxLineBytes: number;
  /**
   * A range may hold more records than asked, so that it ends at a border of the file's own, as a
   * row group of Parquet is one. Default false.
   */
  atOwnBorders?: boolean;
  /** Fields that rows keep, the same as when the ranges are read: others need not be looked at. */
  columns?: readonly string[] | undefined;
}

/** What a job says of one of its inputs: which fields its rows have, and of which types. */
export interface SourceOptions {
  /** Fields that rows keep, in this order; default: all. */
  columns?: readonly string[] | undefined;
  /**
   * JSON Schema of a row. Formats whose values are text make of it what the schema asks for; the
   * rows of all formats are checked against it by `readRows`.
   */
  schema?: JsonObject | undefined;
}

/** How the rows of a slice are read. */
export interface RowReadOptions extends SourceOptions {
  /** As when the slice was cut. */
  maxLineBytes: number;
  /** False where only `raw` is needed: rows may then have neither `value` nor `error`. */
  parse?: boolean;
  /** Told before something is decoded where in the file it lies, for whoever ends that. */
  onPlace?: (place: string) => void;
}

/** What `Slice` says of a range, without the file's name and format. */
export type SliceRange = Omit<Slice, "file" | "format">;
