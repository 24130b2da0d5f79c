import type { TimeUnit } from "./moments.ts";

/** The type of a column's values, or of a part of them. */
export interface ColumnValue {
  type: ColumnType;
  /** Whether a value may be `null` or absent. */
  nullable: boolean;
}

/** One column of a table, with the name of a row's field. */
export interface Column extends ColumnValue {
  name: string;
}

/** The type of values, and how JSON has them. Plain data, so that a plan can keep it. */
export type ColumnType =
  /** Only `null` has been seen so far. */
  | { kind: "null" }
  | { kind: "boolean" }
  | IntegerType
  /** A floating-point number. */
  | { kind: "number"; bits: 16 | 32 | 64 }
  /** In JSON a number if it has up to 15 digits; beyond that text, so that no digit is lost. */
  | { kind: "decimal"; precision: number; scale: number }
  | { kind: "string" }
  /** Any JSON value. A format without such a type keeps its JSON text. */
  | { kind: "json" }
  /** Base64 text. With `length`, every value has this many bytes. */
  | { kind: "bytes"; length?: number }
  | { kind: "uuid" }
  /** `2024-02-29`. */
  | { kind: "date" }
  /** `13:05:00.250`. */
  | { kind: "time"; unit: TimeUnit; isUtc: boolean }
  /** `2024-02-29T13:05:00.250Z`; without the `Z` if it has no time zone. */
  | { kind: "timestamp"; unit: TimeUnit; isUtc: boolean }
  | { kind: "list"; element: ColumnValue }
  | { kind: "struct"; fields: Column[] }
  /** An object if its keys are strings, else a list of `{key, value}`. */
  | { kind: "map"; key: ColumnType; value: ColumnValue };

/** A whole number of this many bits. */
export interface IntegerType {
  kind: "integer";
  bits: 8 | 16 | 32 | 64;
  isSigned: boolean;
  /** Some values lie beyond ±(2^53 − 1), where a 64-bit float loses digits. */
  isWide?: boolean;
}

/** A JSON number keeps this many digits in any case. */
export const maxNumberDigits = 15;
