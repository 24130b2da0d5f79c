import type { Column, ColumnType, ColumnValue, IntegerType } from "./column-types.ts";
import { maxNumberDigits } from "./column-types.ts";

const json: ColumnType = { kind: "json" };
const text: ColumnType = { kind: "string" };

/** Types that JSON has as text, as it has decimals of many digits. */
const textKinds = new Set(["string", "bytes", "uuid", "date", "time", "timestamp"]);

/**
 * The columns of two tables together: those of `a` in their order, then the others of `b`. Each
 * column has the narrowest type that holds the values of both, or `json` if the two types do not go
 * together. A column that one table lacks may be null.
 */
export function mergeColumns(a: readonly Column[], b: readonly Column[]): Column[] {
  const others = new Map(b.map((column) => [column.name, column]));
  const merged = a.map((column) => {
    const other = others.get(column.name);
    others.delete(column.name);
    return other ? { name: column.name, ...mergeValues(column, other) } : optional(column);
  });
  return [...merged, ...[...others.values()].map(optional)];
}

function optional(column: Column): Column {
  return { ...column, nullable: true };
}

/** The narrowest type that holds the values of both. */
export function mergeValues(a: ColumnValue, b: ColumnValue): ColumnValue {
  return { type: mergeTypes(a.type, b.type), nullable: a.nullable || b.nullable };
}

function mergeTypes(a: ColumnType, b: ColumnType): ColumnType {
  if (a === b || b.kind === "null") return a;
  if (a.kind === "null") return b;
  if (a.kind === "list" && b.kind === "list") {
    return { kind: "list", element: mergeValues(a.element, b.element) };
  }
  if (a.kind === "struct" && b.kind === "struct") {
    return { kind: "struct", fields: mergeColumns(a.fields, b.fields) };
  }
  if (a.kind === "map" && b.kind === "map") return mergeMaps(a, b);
  if (isNumeric(a) && isNumeric(b)) return mergeNumbers(a, b);
  if (isText(a) && isText(b)) return mergeTexts(a, b);
  return a.kind === "boolean" && b.kind === "boolean" ? a : json;
}

type MapType = Extract<ColumnType, { kind: "map" }>;

function mergeMaps(a: MapType, b: MapType): ColumnType {
  const key = mergeTypes(a.key, b.key);
  const isSameForm = (a.key.kind === "string") === (key.kind === "string");
  if (!isSameForm || (b.key.kind === "string") !== (key.kind === "string")) return json;
  return { kind: "map", key, value: mergeValues(a.value, b.value) };
}

type NumericType = Extract<ColumnType, { kind: "integer" | "number" | "decimal" }>;

function isNumeric(type: ColumnType): type is NumericType {
  if (type.kind === "decimal") return type.precision <= maxNumberDigits;
  return type.kind === "integer" || type.kind === "number";
}

function mergeNumbers(a: NumericType, b: NumericType): ColumnType {
  if (a.kind === "integer" && b.kind === "integer") return mergeIntegers(a, b);
  if (a.kind === "decimal" && b.kind === "decimal") return mergeDecimals(a, b);
  if (a.kind === "number" && b.kind === "number") return a.bits > b.bits ? a : b;
  const isWide = [a, b].some((type) => type.kind === "integer" && type.isWide);
  return isWide ? json : { kind: "number", bits: 64 };
}

function mergeIntegers(a: IntegerType, b: IntegerType): ColumnType {
  if (a.isSigned !== b.isSigned) {
    const [signed, unsigned] = a.isSigned ? [a, b] : [b, a];
    const isWide = signed.isWide || unsigned.isWide;
    // No 64-bit type holds both numbers below 0 and numbers above 2^63.
    if (unsigned.bits === 64 && isWide) return json;
    const above = ({ 8: 16, 16: 32, 32: 64, 64: 64 } as const)[unsigned.bits];
    const bits = larger(above, signed.bits);
    return { kind: "integer", bits, isSigned: true, ...(isWide && { isWide }) };
  }
  const isWide = a.isWide || b.isWide;
  const bits = larger(a.bits, b.bits);
  return { kind: "integer", bits, isSigned: a.isSigned, ...(isWide && { isWide }) };
}

function larger(a: IntegerType["bits"], b: IntegerType["bits"]): IntegerType["bits"] {
  return b > a ? b : a;
}

function mergeDecimals(
  a: { precision: number; scale: number },
  b: { precision: number; scale: number },
): ColumnType {
  const scale = Math.max(a.scale, b.scale);
  const precision = scale + Math.max(a.precision - a.scale, b.precision - b.scale);
  if (precision > maxNumberDigits) return { kind: "number", bits: 64 };
  return { kind: "decimal", precision, scale };
}

function isText(type: ColumnType): boolean {
  return textKinds.has(type.kind) || (type.kind === "decimal" && !isNumeric(type));
}

function mergeTexts(a: ColumnType, b: ColumnType): ColumnType {
  if (a.kind !== b.kind) return text;
  if (a.kind === "bytes" && b.kind === "bytes") {
    return a.length === b.length ? a : { kind: "bytes" };
  }
  if (a.kind === "time" && b.kind === "time" && a.isUtc === b.isUtc) return finer(a, b);
  if (a.kind === "timestamp" && b.kind === "timestamp" && a.isUtc === b.isUtc) {
    // Nanoseconds only cover the years 1677 to 2262.
    const isNano = (type: { unit: string }) => type.unit === "nanoseconds";
    return isNano(a) === isNano(b) ? finer(a, b) : text;
  }
  if (a.kind === "decimal" && b.kind === "decimal") {
    return a.scale === b.scale ? (a.precision > b.precision ? a : b) : text;
  }
  return a.kind === "time" || a.kind === "timestamp" ? text : a;
}

function finer<Type extends { unit: string }>(a: Type, b: Type): Type {
  const order = ["milliseconds", "microseconds", "nanoseconds"];
  return order.indexOf(a.unit) >= order.indexOf(b.unit) ? a : b;
}
