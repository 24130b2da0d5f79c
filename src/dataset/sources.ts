import type { z } from "zod";
import type { JsonObject } from "../foundation/json.ts";
import { jsonSchemaOf } from "../prompt/structure/zod-schema.ts";
import { Dataset } from "./dataset.ts";
import type { Source } from "./step.ts";
import type { RowFrom } from "./types.ts";

/** A file, a glob, an address such as `s3://bucket/rows/*.jsonl`, or several of them. */
export type InputPath = string | readonly string[];

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
  /** Rows of this program; a value that is no object becomes `{data: value}`. */
  from<Value>(values: Iterable<Value>): Dataset<RowFrom<Value> & object> {
    return new Dataset({ kind: "rows", rows: Array.from(values, rowOf) });
  },

  /** Lines of JSON. */
  jsonl<Schema extends z.ZodType<object> = z.ZodType<JsonObject>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "jsonl", schema));
  },

  /** Files of JSON: a list of rows, or one row. */
  json<Schema extends z.ZodType<object> = z.ZodType<JsonObject>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "json", schema));
  },

  /** CSV with a header. Values are texts, but for columns to which the schema gives a type. */
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

  /** Parquet. */
  parquet<Schema extends z.ZodType<object> = z.ZodType<JsonObject>>(
    path: InputPath,
    schema?: Schema,
  ): Dataset<z.output<Schema>> {
    return new Dataset(sourceOf(path, "parquet", schema));
  },

  /** Files themselves, each a row with its name, path and size. */
  files(path: InputPath): Dataset<FileRow> {
    return new Dataset(sourceOf(path, "files"));
  },
});

function rowOf(value: unknown): JsonObject {
  const isRow = typeof value === "object" && value !== null && !Array.isArray(value);
  return (isRow ? value : { data: value }) as JsonObject;
}

function sourceOf(path: InputPath, format: string, schema?: z.ZodType): Source {
  const paths = typeof path === "string" ? [path] : path;
  const common = { format, ...(schema && { schema: jsonSchemaOf(schema, "schema") }) };
  return { kind: "input", input: paths.map((each) => ({ path: each, ...common })) };
}
