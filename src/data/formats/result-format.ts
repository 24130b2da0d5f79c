import type { Compression } from "./compressing.ts";
import type { EncoderOptions, RowEncoder } from "./encoder.ts";
import { jsonEncoder, jsonlEncoder } from "./json-encoder.ts";
import type { PageCompression } from "./parquet/page-codecs.ts";

/** Formats of results, with the endings of their files. */
const endings = {
  jsonl: ".jsonl",
  json: ".json",
  csv: ".csv",
  tsv: ".tsv",
  parquet: ".parquet",
} as const;

export type ResultFormatName = keyof typeof endings;

const compressedEndings = { gzip: ".gz", zstd: ".zst", brotli: ".br" } as const;

/** The form in which results are written. */
export interface ResultFormat {
  name: ResultFormatName;
  /** Absent = the file is not compressed as a whole. */
  compression?: Compression;
  /** Compression of the pages within a Parquet file; default snappy. */
  pages?: PageCompression;
}

export const resultFormatNames = Object.keys(endings) as ResultFormatName[];

/** The ending of a result file, such as `.csv.gz`. */
export function endingOf({ name, compression }: ResultFormat): string {
  return endings[name] + (compression === undefined ? "" : compressedEndings[compression]);
}

/** The result format that a file's name implies; undefined if there is none. */
export function resultFormatOf(path: string): ResultFormat | undefined {
  const name = path.toLowerCase();
  const compressions = Object.entries(compressedEndings) as [Compression, string][];
  const compression = compressions.find(([, ending]) => name.endsWith(ending))?.[0];
  const bare = compression ? name.slice(0, -compressedEndings[compression].length) : name;
  const format = bare.endsWith(".ndjson")
    ? "jsonl"
    : resultFormatNames.find((each) => bare.endsWith(endings[each]));
  return format && { name: format, ...(compression && { compression }) };
}

/** The path without the ending that names its format: `results` for `results.csv.gz`. */
export function withoutEnding(path: string): string {
  return path.replace(/\.(jsonl|ndjson|json|csv|tsv|parquet)(\.(gz|zst|br))?$/i, "");
}

/** True if the first row can be written only after the columns of the whole file are known. */
export function needsColumns({ name }: ResultFormat): boolean {
  return name === "csv" || name === "tsv" || name === "parquet";
}

/** Opens the encoder of one file; libraries are loaded only when a format needs them. */
export async function openEncoder(
  format: ResultFormat,
  options: EncoderOptions,
): Promise<RowEncoder> {
  const encoder = await plainEncoder(format, options);
  if (format.compression === undefined) return encoder;
  const { compressing } = await import("./compressing.ts");
  return compressing(encoder, format.compression);
}

async function plainEncoder(
  { name, pages }: ResultFormat,
  options: EncoderOptions,
): Promise<RowEncoder> {
  if (name === "jsonl") return jsonlEncoder();
  if (name === "json") return jsonEncoder(options.isObject);
  if (name === "parquet") {
    return (await import("./parquet/encoder.ts")).parquetEncoder(options, pages);
  }
  const { csvEncoder } = await import("./csv-encoder.ts");
  return csvEncoder(options, name === "tsv" ? "\t" : ",");
}
