import { fileURLToPath } from "node:url";
import type { z } from "zod";
import { SluiceError } from "../foundation/errors.ts";
import type { ExactRow } from "../foundation/exact-json.ts";
import { isJsonObject, type JsonObject } from "../foundation/json.ts";
import { typedResult } from "../foundation/json-result.ts";
import { isTyped, toWire } from "../foundation/typed-json.ts";
import { isZodSchema } from "../prompt/structure/zod-schema.ts";
import { Dataset } from "./dataset.ts";
import { edgeSchemaOf } from "./edge-schema.ts";
import type { Source } from "./step.ts";
import type { RowFrom } from "./types.ts";

/**
 * A file, a glob, an address such as `s3://bucket/rows/*.jsonl`, a `URL`, or several of them.
 * Relative paths start from the working directory.
 */
export type InputPath = string | URL | readonly (string | URL)[];

/** A row of `dataset.files`. */
export interface FileRow {
  name: string;
  path: string;
  /** Bytes. */
  size: number;
}

/** A row of `dataset.text`. */
export interface TextRow {
  text: string;
}

/**
 * Where datasets begin. A `schema` of zod gives rows their type and is checked: a row that does not
 * fit fails alone, with the field that is wrong.
 *
 * @example
 * const reviews = dataset.jsonl("reviews/*.jsonl", z.object({ text: z.string() }));
 * await reviews.filter(({ text }) => text !== "").show();
 */
export const dataset = Object.freeze({
  /**
   * Rows of this program; a value that is not an object becomes `{data: value}`. Rows hold what
   * JSON has, dates, `bigint` and typed arrays.
   *
   * @throws SluiceError `USAGE` for any other value, as a `Map` or a function.
   */
  from<Value>(values: Iterable<Value>): Dataset<RowFrom<Value> & object> {
    return new Dataset({ kind: "rows", rows: givenRows(values) });
  },

  /** Lines of JSON. */
  jsonl<Schema extends z.ZodType<object> = z.ZodType<ExactRow>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "jsonl", schema));
  },

  /** Files of JSON: a list of rows, or one row. */
  json<Schema extends z.ZodType<object> = z.ZodType<ExactRow>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "json", schema));
  },

  /**
   * CSV with a header; TSV where a name ends so. Values are texts, but for columns to which the
   * schema gives a type.
   */
  csv<Schema extends z.ZodType<object> = z.ZodType<Record<string, string>>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "csv", schema));
  },

  /** Lines of text, each a row with `text`. */
  text(path: InputPath): Dataset<TextRow> {
    return new Dataset(sourceOf(path, "text"));
  },

  /**
   * Parquet.
   *
   * @example
   * dataset.parquet("rows/*.parquet", { columns: ["id", "text"] }); // reads no other columns
   */
  parquet: tableSource("parquet"),

  /** Arrow files (Feather), in the form that is written to disk. Options as those of `parquet`. */
  arrow: tableSource("arrow"),

  /** Files themselves, each a row with its name, path and size. */
  files(path: InputPath): Dataset<FileRow> {
    return new Dataset(sourceOf(path, "files"));
  },
});

/**
 * Values of the program as rows; a value that is not an object becomes `{data: value}`. They are
 * copies: later changes of the program's own values do not reach them. Dates and typed arrays are
 * as `toWire` has them.
 *
 * @throws SluiceError `USAGE`, naming the row and the place in it, where JSON has no such value.
 */
function givenRows(values: Iterable<unknown>): JsonObject[] {
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

/** How a table is read. */
export interface TableOptions<Schema extends z.ZodType<object>, Name extends string> {
  /** Columns that are read, in this order; default: all of them. */
  columns?: readonly Name[];
  /** Gives rows their type, and is checked. It leaves out columns that are not read. */
  schema?: Schema;
}

/** Reads tables: a schema, or options, may follow the path. */
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
    const { schema, columns } =
      given === undefined || isZodSchema(given) ? { schema: given, columns: undefined } : given;
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

/** Names of files whose columns tabs part, compressed or not. */
const tabSeparated = /\.tsv(?:\.\w+)?$/i;

function pathOf(path: string | URL): string {
  const text = String(path);
  return text.startsWith("file:") ? fileURLToPath(text) : text;
}
