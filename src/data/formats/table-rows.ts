import { SluiceError } from "../../foundation/errors.ts";
import { parseSpecials } from "../../foundation/exact-json.ts";
import type { Json, JsonObject } from "../../foundation/json.ts";
import type { Column } from "../column-types.ts";
import type { InputRow } from "../row.ts";
import { BrokenText } from "./broken-text.ts";
import type { RowReadOptions } from "./format.ts";
import { faultyRow, type RecordPlace } from "./parse-row.ts";
import { unreadable } from "./unreadable.ts";

/** A column of a table that stores values by column, with how they become JSON. */
export interface RowColumn {
  column: Column;
  /** The column's name as JSON, with the colon after it. */
  prefix: string;
  /** The JSON text of a value from the library. */
  text(value: unknown): string;
  /** The value that `JSON.parse` makes of that text, if it can be made without parsing. */
  json?: (value: unknown) => Json;
}

/** The requested columns, in the requested order. */
export function chosenColumns<Chosen extends RowColumn>(
  table: Chosen[],
  file: string,
  names: readonly string[] | undefined,
): Chosen[] {
  if (!names) return table;
  return names.map((name) => {
    const found = table.find(({ column }) => column.name === name);
    if (found) return found;
    const hint = `its columns are ${table.map(({ column }) => column.name).join(", ")}`;
    throw unreadable(file, `it has no column ${name}`, { hint });
  });
}

/** The row made of the values at index `at` of each column. */
export function tableRow(
  columns: readonly RowColumn[],
  values: readonly ArrayLike<unknown>[],
  at: number,
  place: RecordPlace,
  { maxLineBytes, parse = true }: RowReadOptions,
): InputRow {
  const value: JsonObject = {};
  let raw = "{";
  let number = 0;
  for (const { column, prefix, text, json } of columns) {
    const stored = values[number]![at];
    try {
      const own = text(stored);
      raw += number++ === 0 ? prefix + own : `,${prefix}${own}`;
      if (parse) setField(value, column.name, json ? json(stored) : (parseSpecials(own) as Json));
    } catch (thrown) {
      if (!(thrown instanceof BrokenText)) throw thrown;
      return brokenRow(thrown, column.name, place);
    }
  }
  raw += "}";
  if (raw.length > maxLineBytes) return faultyRow(Buffer.from(raw), place, false, maxLineBytes);
  return parse ? { ...place, raw, value } : { ...place, raw };
}

function setField(row: JsonObject, name: string, value: Json): void {
  if (name !== "__proto__") row[name] = value;
  else Object.defineProperty(row, name, { value, enumerable: true, writable: true });
}

/** A row with a text that is not UTF-8. The text is kept as bytes. */
function brokenRow({ bytes }: BrokenText, field: string, place: RecordPlace): InputRow {
  const error = new SluiceError("UTF8_INVALID", "", { ...place, field });
  const value: { [name: string]: Json } = { [field]: Buffer.from(bytes).toString() };
  const rawBase64 = Buffer.from(bytes).toString("base64");
  return { ...place, raw: JSON.stringify(value), rawBase64, error };
}
