import type { Json, JsonObject } from "./json.ts";

/**
 * A batch as columns: lists of equal length, by name. A row without a column has null there.
 *
 * @example
 * toColumns([{ a: 1 }, { a: 2, b: 3 }]); // { a: [1, 2], b: [null, 3] }
 */
export function toColumns(rows: readonly JsonObject[]): Record<string, Json[]> {
  const columns: Record<string, Json[]> = {};
  for (const row of rows) for (const name of Object.keys(row)) columns[name] ??= [];
  for (const [name, values] of Object.entries(columns)) {
    for (const row of rows) values.push(row[name] ?? null);
  }
  return columns;
}

/**
 * The rows of a batch that came as columns: lists or typed arrays of equal length.
 *
 * @throws Error if the columns differ in length.
 */
export function fromColumns(columns: Readonly<Record<string, ArrayLike<unknown>>>): unknown[] {
  const entries = Object.entries(columns);
  const [first] = entries;
  if (first === undefined) return [];
  const rows: Record<string, unknown>[] = Array.from({ length: first[1].length }, () => ({}));
  for (const [name, values] of entries) {
    if (values?.length !== rows.length) {
      const lengths = `${values?.length ?? "no"} values, ${first[0]} has ${rows.length}`;
      throw new Error(`columns are of different lengths: ${name} has ${lengths}`);
    }
    for (const [at, row] of rows.entries()) row[name] = values[at];
  }
  return rows;
}
