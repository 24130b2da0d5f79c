import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { nearest } from "../../foundation/suggest.ts";
import { compressionEndings, compressionOf, fileNameOf } from "../decompressing.ts";
import type { FileForm } from "../row.ts";
import { arrowFormat } from "./arrow/arrow.ts";
import { csvFormat, delimitedFormat, tsvFormat } from "./csv/csv.ts";
import { decodedInThread } from "./decoding-thread/thread-format.ts";
import { jsonFormat } from "./json.ts";
import { jsonlFormat } from "./jsonl.ts";
import { parquetFormat } from "./parquet/parquet.ts";
import type { RowFormat } from "./row-format.ts";
import { textFormat } from "./text.ts";
import { filesFormat, textFileFormat } from "./whole-file.ts";

/**
 * Lines of an OpenAI batch file. They are JSONL whose rows are requests, so no file ending names
 * this format.
 */
const openaiBatchFormat: RowFormat = { ...jsonlFormat(), name: "openai-batch", extensions: [] };

const formats: readonly RowFormat[] = [
  jsonlFormat(),
  jsonFormat(),
  csvFormat(),
  tsvFormat(),
  textFormat(),
  textFileFormat(),
  filesFormat(),
  decodedInThread(parquetFormat()),
  decodedInThread(arrowFormat()),
  openaiBatchFormat,
];

/** Names of all formats, as `input.format` takes them. */
export const formatNames: readonly string[] = formats.map((format) => format.name);

/**
 * The format of a file: the named one, or else that of its ending, without that of a compression.
 *
 * @throws SluiceError `INPUT_FORMAT` with the nearest known name or ending.
 * @example
 * formatFor("data/reviews.jsonl").name; // "jsonl"
 * formatFor("data/reviews.jsonl.gz").name; // "jsonl"
 * formatFor("data/reviews.log", "text").name; // "text"
 */
export function formatFor(
  path: string,
  namedFormat?: string,
  { delimiter, records }: FileForm = {},
): RowFormat {
  const format = plainFormatFor(path, namedFormat);
  if (delimiter !== undefined) return delimitedFormat(format.name, delimiter);
  return records === undefined ? format : jsonFormat(limits.readChunkBytes, records.split("."));
}

function plainFormatFor(path: string, namedFormat?: string): RowFormat {
  if (namedFormat !== undefined) return formatNamed(namedFormat, path);
  const found = byEnding(path);
  if (found) return found;
  const name = nameInside(path);
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 ? name.slice(dot) : "";
  if (compressionEndings.includes(ending)) {
    const hint = "decompress it once: it seems to be compressed twice";
    throw new SluiceError("INPUT_FORMAT", `ending ${ending}${ending}`, { file: path, hint });
  }
  if (otherCompressions.includes(ending)) {
    const hint = `decompress it, or compress it to ${compressionEndings.join(", ")}`;
    throw new SluiceError("INPUT_FORMAT", `ending ${ending}`, { file: path, hint });
  }
  const endings = formats.flatMap((format) => format.extensions);
  const detail = ending === "" ? "its name has no ending" : `ending ${ending}`;
  throw unknownFormat(detail, path, nearest(ending, endings));
}

/** Name of the format of a file, by its ending; undefined for an unknown ending. */
export function formatByEnding(path: string): string | undefined {
  return byEnding(path)?.name;
}

function byEnding(path: string): RowFormat | undefined {
  const name = nameInside(path);
  return formats.find(({ extensions }) => extensions.some((end) => name.endsWith(end)));
}

/** True for a file that is decompressed or decoded, so that reading must start at its beginning. */
export function isUncut(file: { path: string; format: string; form?: FileForm }): boolean {
  const { path, format, form } = file;
  if (form?.encoding !== undefined) return true;
  return compressionOf(path) !== undefined && !formatFor(path, format).takesBytesAsTheyAre;
}

/**
 * Refuses options that files of this format do not have.
 *
 * @throws SluiceError `JOB_INVALID`, which names the key.
 */
export function assertForm(path: string, format: RowFormat, form: FileForm): void {
  const { name } = format;
  const isOf: Readonly<Record<keyof FileForm, boolean>> = {
    delimiter: name === "csv" || name === "tsv",
    records: name === "json",
    encoding: !["parquet", "arrow", "files"].includes(name),
  };
  for (const key of Object.keys(isOf) as (keyof FileForm)[]) {
    if (form[key] === undefined || isOf[key]) continue;
    const formats = { delimiter: "csv", records: "json", encoding: "text" }[key];
    throw new SluiceError("JOB_INVALID", `${name} has no ${key}`, {
      file: path,
      field: `input.${key}`,
      hint: `leave it out, or set input.format to one of ${formats}`,
    });
  }
}

/** Compressions and archives that cannot be read. */
const otherCompressions: readonly string[] = [".bz2", ".xz", ".lz4", ".zip", ".7z", ".tgz", ".tar"];

/** A file's name without the ending of a compression. */
function nameInside(path: string): string {
  const name = fileNameOf(path);
  const compression = compressionOf(path);
  return compression ? name.slice(0, -compression.ending.length) : name;
}

function formatNamed(name: string, path: string): RowFormat {
  const found = formats.find((format) => format.name === name);
  if (found) return found;
  throw unknownFormat(`format ${name}`, path, nearest(name, formatNames));
}

function unknownFormat(detail: string, file: string, suggestion: string | undefined): SluiceError {
  const known = `set input.format to one of ${formatNames.join(", ")}`;
  const hint = suggestion ? `did you mean ${suggestion}? Else ${known}` : known;
  return new SluiceError("INPUT_FORMAT", detail, { file, hint });
}
