import type { Compression } from "./compressing.ts";
import type { EncoderOptions, RowEncoder } from "./encoder.ts";
import { jsonEncoder, jsonlEncoder } from "./json-encoder.ts";
import type { PageCompression } from "./parquet/page-codecs.ts";

/** Formats that results are written in, with the ending of their files. */
const endings = {
  jsonl: ".jsonl",
  json: ".json",
  csv: ".csv",
  tsv: ".tsv",
  parquet: ".parquet",
} as const;

/** Name of a format that results are written in. */
export type ResultFormatName = keyof typeof endings;

/** Endings of compressed files. */
const compressedEndings = { gzip: ".gz", zstd: ".zst", brotli: ".br" } as const;

/** In which form results are written. */
export interface ResultFormat {
  name: ResultFormatName;
  /** Absent = the file is not compressed as a whole. */
  compression?: Compression;
  /** How the pages within a Parquet file are compressed; default snappy. */
  pages?: PageCompression;
}

export const resultFormatNames = Object.keys(endings) as ResultFormatName[];

/** The ending of a result file, as `.csv.gz`. */
export function endingOf({ name, compression }: ResultFormat): string {
  return endings[name] + (compression === undefined ? "" : compressedEndings[compression]);
}

/** The format that a file's name tells, or undefined where results are not written as such. */
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

/** The path without the ending that tells its format: `results` of `results.csv.gz`. */
export function withoutEnding(path: string): string {
  return path.replace(/\.(jsonl|ndjson|json|csv|tsv|parquet)(\.(gz|zst|br))?$/i, "");
}

/** True where the columns of the whole file must be known before its first row is written. */
export function needsColumns({ name }: ResultFormat): boolean {
  return name === "csv" || name === "tsv" || name === "parquet";
}

/** Opens the encoder of one file; libraries are loaded when a format needs them. */
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
