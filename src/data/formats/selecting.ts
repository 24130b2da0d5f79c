import type { JsonObject } from "../../foundation/json.ts";
import type { InputRow } from "../row.ts";
import { selectFields } from "../splice.ts";
import type { RowFormat } from "./row-format.ts";

/** Makes a format keep only the requested columns, by reading whole rows and dropping the rest. */
export function selecting(format: RowFormat): RowFormat {
  return {
    ...format,
    async *read(reader, slice, firstIndex, options) {
      const { columns } = options;
      if (columns === undefined) return yield* format.read(reader, slice, firstIndex, options);
      // Columns can be selected only from valid JSON, so rows are parsed in any case.
      const parsed = { ...options, parse: true };
      for await (const rows of format.read(reader, slice, firstIndex, parsed)) {
        yield rows.map((row) => selected(row, columns));
      }
    },
  };
}

function selected(row: InputRow, columns: readonly string[]): InputRow {
  const { value } = row;
  if (value === undefined) return row;
  const kept = columns.filter((name) => Object.hasOwn(value, name));
  const entries = kept.map((name) => [name, value[name]!] as const);
  return {
    ...row,
    raw: selectFields(row.raw, kept),
    value: Object.fromEntries(entries) as JsonObject,
  };
}
