import { fileURLToPath } from "node:url";
import type { z } from "zod";
import { assertOptions } from "../foundation/call-options.ts";
import { SluiceError } from "../foundation/errors.ts";
import type { ExactRow } from "../foundation/exact-json.ts";
import { isJsonObject, type JsonObject } from "../foundation/json.ts";
import { typedResult } from "../foundation/json-result.ts";
import { isTyped, toWire } from "../foundation/typed-json.ts";
import { isZodSchema } from "../prompt/structure/zod-schema.ts";
import { Dataset } from "./dataset.ts";
import { edgeSchemaOf } from "./edge-schema.ts";
import type { Source } from "./step.ts";
import { optionsPage } from "./step-code.ts";
import type { RowFrom } from "./types.ts";

/**
 * A file, a glob, an address such as `s3://bucket/rows/*.jsonl`, a `URL`, or a list of these.
 * Relative paths start from the working directory.
 */
export type InputPath = string | URL | readonly (string | URL)[];

/** A row of `dataset.files`. */
export interface FileRow {
  name: string;
  path: string;
  /** Size in bytes. */
  size: number;
}

/** A row of `dataset.text`. */
export interface TextRow {
  text: string;
}

/**
 * The sources of datasets. A zod `schema` gives rows their type, and rows are checked against it: a
 * row that does not fit fails alone, and its error names the field.
 *
 * @example
 * const reviews = dataset.jsonl("reviews/*.jsonl", z.object({ text: z.string() }));
 * await reviews.filter(({ text }) => text !== "").show();
 */
export const dataset = Object.freeze({
  /**
   * Rows from values of this program. A value that is not an object becomes `{data: value}`. Rows
   * may hold JSON, dates, `bigint` and typed arrays.
   *
   * @throws SluiceError `USAGE` for any other value, such as a `Map` or a function.
   */
  from<Value>(values: Iterable<Value>): Dataset<RowFrom<Value> & object> {
    return new Dataset({ kind: "rows", rows: givenRows(values) });
  },

  /** Files of JSON lines. */
  jsonl<Schema extends z.ZodType<object> = z.ZodType<ExactRow>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "jsonl", schema));
  },

  /** Files of JSON, each a list of rows or one row. */
  json<Schema extends z.ZodType<object> = z.ZodType<ExactRow>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "json", schema));
  },

  /**
   * CSV with a header, or TSV if the name ends in `.tsv`. Values are texts, except in columns to
   * which the schema gives another type.
   */
  csv<Schema extends z.ZodType<object> = z.ZodType<Record<string, string>>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "csv", schema));
  },

  /** Lines of text; each line is a row with `text`. */
  text(path: InputPath): Dataset<TextRow> {
    return new Dataset(sourceOf(path, "text"));
  },

  /**
   * Parquet files.
   *
   * @example
   * dataset.parquet("rows/*.parquet", { columns: ["id", "text"] }); // reads no other columns
   */
  parquet: tableSource("parquet"),

  /** Arrow files (Feather), as files or streams. Options as for `parquet`. */
  arrow: tableSource("arrow"),

  /** Files by reference; each file is a row with its name, path and size. */
  files(path: InputPath): Dataset<FileRow> {
    return new Dataset(sourceOf(path, "files"));
  },
});

/**
 * Values of the program as rows. A value that is not an object becomes `{data: value}`. Rows are
 * copies, so later changes by the program do not reach them. Dates and typed arrays get the form of
 * `toWire`.
 *
 * @throws SluiceError `USAGE`, which names the row and the place in it, for a value that JSON does
 *   not have.
 */
function givenRows(values: Iterable<unknown>): JsonObject[] {
  // `Array.from` would make an empty list of a promise or an object, without a word.
  if (typeof Object(values)[Symbol.iterator] !== "function") {
    const hint = "give a list; of an asynchronous one, await Array.fromAsync(values)";
    throw new SluiceError("USAGE", "dataset.from: the values are not a list", { hint });
  }
  return Array.from(values, (value, at) => {
    const typed = typedResult(value, (problem) => notJson(at, problem));
    const isRow = isJsonObject(typed) && !isTyped(typed);
    return toWire(isRow ? typed : { data: typed }) as JsonObject;
  });
}

function notJson(at: number, problem: string): SluiceError {
  return new SluiceError("USAGE", `dataset.from: value ${at}${problem}`, {
    hint: "give a list for a Set, and an object for a Map",
  });
}

/** Options for reading a table. */
export interface TableOptions<Schema extends z.ZodType<object>, Name extends string> {
  /** Columns to read, in this order; default: all. */
  columns?: readonly Name[];
  /** Gives rows their type and is checked. It must not have columns that are not read. */
  schema?: Schema;
}

/** Reads tables. The path may be followed by a schema or by options. */
interface TableSource {
  <Schema extends z.ZodType<object> = z.ZodType<ExactRow>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>>;
  <
    const Name extends keyof z.output<Schema> & string,
    Schema extends z.ZodType<object> = z.ZodType<ExactRow>,
  >(
    path: InputPath,
    options: TableOptions<Schema, Name>,
  ): Dataset<Pick<z.output<Schema>, Name>>;
}

function tableSource(format: string): TableSource {
  return (path: InputPath, given?: z.ZodType<object> | TableOptions<z.ZodType<object>, string>) => {
    if (given === undefined || isZodSchema(given)) {
      return new Dataset<never>(sourceOf(path, format, given));
    }
    assertOptions(format, given, { columns: true, schema: true }, optionsPage);
    const { schema, columns } = given;
    return new Dataset<never>(sourceOf(path, format, schema, columns));
  };
}

function sourceOf(
  path: InputPath,
  format: string,
  schema?: z.ZodType,
  columns?: readonly string[],
): Source {
  const paths = (Array.isArray(path) ? path : [path]).map(pathOf);
  if (paths.length === 0) {
    throw new SluiceError("USAGE", "a dataset of no path", { hint: "name a file, or a glob" });
  }
  const checked = schema && { schema: edgeSchemaOf(schema, "schema") };
  const input = paths.map((each) => ({
    path: each,
    format: format === "csv" && tabSeparated.test(each) ? "tsv" : format,
    ...checked,
    ...(columns && { columns: [...columns] }),
  }));
  return { kind: "input", input };
}

/** Files with tabs between columns, compressed or not. */
const tabSeparated = /\.tsv(?:\.\w+)?$/i;

function pathOf(path: string | URL): string {
  const text = String(path);
  return text.startsWith("file:") ? fileURLToPath(text) : text;
}
