import type { Json, JsonObject } from "./json.ts";

/**
 * A batch as columns: lists of equal length, by name. A row without a column has null there.
 *
 * @example
 * toColumns([{ a: 1 }, { a: 2, b: 3 }]); // { a: [1, 2], b: [null, 3] }
 */
export function toColumns(rows: readonly JsonObject[]): Record<string, Json[]> {
  const names = new Set<string>();
  for (const row of rows) for (const name of Object.keys(row)) names.add(name);
  // Not `row[name]` alone: every object has a `constructor`.
  const valueIn = (row: JsonObject, name: string) => (Object.hasOwn(row, name) ? row[name]! : null);
  const columns = [...names].map((name) => [name, rows.map((row) => valueIn(row, name))] as const);
  return Object.fromEntries(columns);
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
  const { length } = first[1];
  for (const [name, values] of entries) {
    if (values?.length === length) continue;
    const lengths = `${values?.length ?? "no"} values, ${first[0]} has ${length}`;
    throw new Error(`columns are of different lengths: ${name} has ${lengths}`);
  }
  return Array.from({ length }, (_, at) =>
    Object.fromEntries(entries.map(([name, values]) => [name, values[at]])),
  );
}
