import Papa from "papaparse";
import {
  exactText,
  parseWritten,
  type WrittenJson,
  type WrittenRow,
} from "../../foundation/exact-json.ts";
import type { EncoderOptions, RowEncoder } from "./encoder.ts";

/** A field of CSV: null is written as nothing, and an empty text as `""`. */
type Field = string | null;

/**
 * CSV with a header (RFC 4180) and lines that end in `
 * `. Objects and lists are JSON text; numbers keep the text of their row. Null, NaN, infinities and
 * absent fields are written as nothing, an empty text as `""`.
 *
 * @param delimiter a tab for TSV.
 * @throws `add`: if a row has a field that is not a column.
 */
export function csvEncoder({ columns }: EncoderOptions, delimiter = ","): RowEncoder {
  const names = columns.map(({ name }) => name);
  const known = new Set(names);
  let isBegun = false;
  const begin = (): Uint8Array[] => {
    if (isBegun) return [];
    isBegun = true;
    return names.length === 0 ? [] : [textOf([names], delimiter)];
  };
  return {
    add: async (lines) => {
      if (lines.length === 0) return [];
      const rows = lines.map((line) => fieldsOf(parseWritten(line) as WrittenRow, names, known));
      return [...begin(), textOf(rows, delimiter)];
    },
    end: async () => begin(),
  };
}

function fieldsOf(row: WrittenRow, names: readonly string[], known: ReadonlySet<string>): Field[] {
  for (const name of Object.keys(row)) {
    if (!known.has(name)) throw new Error(`column ${name} is in a row and not in the header`);
  }
  return names.map((name) => fieldOf(Object.hasOwn(row, name) ? row[name]! : null));
}

function fieldOf(value: WrittenJson): Field {
  if (value === null || typeof value === "string") return value;
  const text = exactText(value);
  return text === "null" ? null : text;
}

function textOf(rows: readonly Field[][], delimiter: string): Uint8Array {
  // A lone null would be an empty line, which readers skip.
  const isLone = rows[0]!.length === 1;
  const quotes = (field: Field) => field === "";
  const data = isLone ? rows.map(([field]) => [field ?? ""]) : rows;
  const text = Papa.unparse(data as string[][], { delimiter, newline: "\n", quotes });
  return Buffer.from(`${text}\n`);
}
