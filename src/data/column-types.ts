import type { TimeUnit } from "./moments.ts";

/** What the values of a column, or of a part of one, are. */
export interface ColumnValue {
  type: ColumnType;
  /** Whether a value may be `null` or missing. */
  nullable: boolean;
}

/** One column of a table: a field that rows have. */
export interface Column extends ColumnValue {
  name: string;
}

/**
 * The type of a column's values, with how each stands in JSON. Plain data, so that it can be kept
 * in a plan.
 */
export type ColumnType =
  /** Only `null` was seen so far. */
  | { kind: "null" }
  | { kind: "boolean" }
  | IntegerType
  /** A floating-point number. */
  | { kind: "number"; bits: 16 | 32 | 64 }
  /** Up to 15 digits it is a JSON number, beyond that text, so that no digit is lost. */
  | { kind: "decimal"; precision: number; scale: number }
  | { kind: "string" }
  /** Any JSON value; formats that have no such type keep its JSON text. */
  | { kind: "json" }
  /** Base64 text. With `length`, all values have so many bytes. */
  | { kind: "bytes"; length?: number }
  | { kind: "uuid" }
  /** `2024-02-29`. */
  | { kind: "date" }
  /** `13:05:00.250`. */
  | { kind: "time"; unit: TimeUnit; isUtc: boolean }
  /** `2024-02-29T13:05:00.250Z`; without the `Z` where it is of no zone. */
  | { kind: "timestamp"; unit: TimeUnit; isUtc: boolean }
  | { kind: "list"; element: ColumnValue }
  | { kind: "struct"; fields: Column[] }
  /** An object where its keys are strings, else a list of `{key, value}`. */
  | { kind: "map"; key: ColumnType; value: ColumnValue };

/** A whole number of so many bits. */
export interface IntegerType {
  kind: "integer";
  bits: 8 | 16 | 32 | 64;
  isSigned: boolean;
  /** Some lie beyond ±(2^53 − 1), where a 64-bit float would lose digits. */
  isWide?: boolean;
}

/** Digits that a JSON number surely keeps. */
export const maxNumberDigits = 15;
