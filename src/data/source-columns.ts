import { SluiceError } from "../foundation/errors.ts";
import { isJsonObject } from "../foundation/json.ts";
import { nearest } from "../foundation/suggest.ts";
import type { SourceOptions } from "./formats/format.ts";
import type { RowFormat } from "./formats/row-format.ts";
import type { Slice } from "./row.ts";
import type { RandomReader } from "./storage/storage.ts";

/** Rows by which the fields of a format without columns are known. */
const sampledRows = 200;

/**
 * Refuses fields that a job names and a file does not have: by what the file says of its columns,
 * else by its first rows. Of these a field may be missing where `schema` has it as a property.
 *
 * @param slice the first of the file.
 * @throws SluiceError `COLUMN_UNKNOWN` with the nearest name.
 */
export async function assertColumns(
  { columns = [], schema = {} }: SourceOptions,
  format: RowFormat,
  reader: RandomReader,
  slice: Slice,
  maxLineBytes: number,
): Promise<void> {
  const { file } = slice;
  const own = await format.columns?.(reader, file);
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  const asked = own
    ? [...columns, ...required.filter((name) => typeof name === "string")]
    : columns.filter((name) => !Object.hasOwn(properties, name));
  if (asked.length === 0) return;
  const names = own
    ? new Set(own.map(({ name }) => name))
    : await sampledNames(format, reader, slice, maxLineBytes);
  const missing = asked.find((name) => !names.has(name));
  if (missing === undefined || names.size === 0) return;
  const suggestion = nearest(missing, [...names]);
  const some = [...names].slice(0, 12).join(", ");
  const known = `it has ${some}${names.size > 12 ? ", …" : ""}`;
  const hint = suggestion === undefined ? known : `did you mean ${suggestion}? Else: ${known}`;
  throw new SluiceError("COLUMN_UNKNOWN", JSON.stringify(missing), { file, hint });
}

/** Names of the fields of the first rows. */
async function sampledNames(
  format: RowFormat,
  reader: RandomReader,
  slice: Slice,
  maxLineBytes: number,
): Promise<Set<string>> {
  const names = new Set<string>();
  let count = 0;
  for await (const rows of format.read(reader, slice, 0, { maxLineBytes })) {
    for (const { value } of rows) {
      if (count++ >= sampledRows) return names;
      for (const name of Object.keys(value ?? {})) names.add(name);
    }
  }
  return names;
}
