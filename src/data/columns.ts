import type { ExactJson, ExactRow } from "../foundation/exact-json.ts";
import { limits } from "../foundation/limits.ts";
import { fits, isObject } from "./column-fit.ts";
import { mergeValues } from "./column-merge.ts";
import type { Column, ColumnType, ColumnValue } from "./column-types.ts";

export { mergeColumns } from "./column-merge.ts";
export type { Column, ColumnType, ColumnValue } from "./column-types.ts";

/**
 * Infers the columns of rows: it starts with the columns that the source names and widens them by
 * the values in the rows. Memory grows with the number of columns, not of rows.
 *
 * Rows come from `parseExactly` if the digits of whole numbers beyond ±(2^53 − 1) matter: a
 * `number` of that size counts as a float.
 *
 * @example
 * const tally = new ColumnTally();
 * tally.add({ id: 1 });
 * tally.add({ id: 2, score: 0.5 });
 * tally.columns().map(({ nullable }) => nullable); // [false, true]: id and score
 */
export class ColumnTally {
  readonly #columns = new Map<string, { value: ColumnValue; rows: number }>();
  #rows = 0;

  /**
   * @param known the columns that the source of the rows names; values that do not fit widen them.
   */
  constructor(known: readonly Column[] = []) {
    for (const { name, type, nullable } of known) {
      this.#columns.set(name, { value: { type, nullable }, rows: 0 });
    }
  }

  add(row: ExactRow): void {
    for (const name of Object.keys(row)) {
      const value = row[name]!;
      const column = this.#columns.get(name);
      if (!column) {
        // The earlier rows had no such field.
        const found = columnOf(value, 1);
        const nullable = found.nullable || this.#rows > 0;
        this.#columns.set(name, { value: { ...found, nullable }, rows: 1 });
        continue;
      }
      column.rows++;
      if (!fits(column.value, value)) column.value = widen(column.value, columnOf(value, 1));
    }
    this.#rows++;
  }

  /**
   * The columns, known ones first, then in the order in which they appeared. A column that a row
   * lacked may be null.
   */
  columns(): Column[] {
    return [...this.#columns].map(([name, { value, rows }]) => ({
      name,
      type: value.type,
      nullable: value.nullable || rows < this.#rows,
    }));
  }
}

/** The narrowest type for the values of both, bounded so that it cannot grow with the data. */
function widen(a: ColumnValue, b: ColumnValue): ColumnValue {
  const merged = mergeValues(a, b);
  return { ...merged, type: bounded(merged.type) };
}

/** The type of one value at nesting depth `depth`. */
function columnOf(value: ExactJson, depth: number): ColumnValue {
  return { type: bounded(typeOf(value, depth)), nullable: value === null };
}

function typeOf(value: ExactJson, depth: number): ColumnType {
  if (value === null) return { kind: "null" };
  if (typeof value === "boolean") return { kind: "boolean" };
  if (typeof value === "number") return typeOfNumber(value);
  if (typeof value === "bigint") return typeOfWide(value);
  if (typeof value === "string") return { kind: value.isWellFormed() ? "string" : "json" };
  if (depth > limits.maxColumnDepth) return { kind: "json" };
  if (!isObject(value)) return typeOfList(value, depth);
  const fields = Object.entries(value).map(([name, member]) => ({
    name,
    ...columnOf(member, depth + 1),
  }));
  return { kind: "struct", fields };
}

function typeOfList(values: readonly ExactJson[], depth: number): ColumnType {
  let element: ColumnValue = { type: { kind: "null" }, nullable: false };
  for (const value of values) {
    if (!fits(element, value)) element = widen(element, columnOf(value, depth + 1));
  }
  return { kind: "list", element };
}

function typeOfNumber(value: number): ColumnType {
  const isWhole = Number.isSafeInteger(value) && !Object.is(value, -0);
  return isWhole ? { kind: "integer", bits: 64, isSigned: true } : { kind: "number", bits: 64 };
}

function typeOfWide(value: bigint): ColumnType {
  if (BigInt.asIntN(64, value) === value) {
    return { kind: "integer", bits: 64, isSigned: true, isWide: true };
  }
  if (BigInt.asUintN(64, value) === value) {
    return { kind: "integer", bits: 64, isSigned: false, isWide: true };
  }
  return { kind: "json" };
}

/** If the keys of objects are data, each would become a field: such objects become `json`. */
function bounded(type: ColumnType): ColumnType {
  const isMany = type.kind === "struct" && type.fields.length > limits.maxStructFields;
  return isMany ? { kind: "json" } : type;
}
