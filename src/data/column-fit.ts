import type { ExactJson } from "../foundation/exact-json.ts";
import type { Column, ColumnType, ColumnValue, IntegerType } from "./column-types.ts";
import { maxNumberDigits } from "./column-types.ts";
import { dateOf, timeOf, timestampOf } from "./moments.ts";

const base64Pattern = /^[A-Za-z0-9+/]*={0,2}$/;
const uuidPattern = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;
const decimalPattern = /^-?(\d+)(?:\.(\d+))?$/;

/** A row holds a value that the table cannot hold. */
export class ColumnMisfit extends Error {
  override readonly name = "ColumnMisfit";
}

/** Whether a column can store a value so that reading it gives the same value. */
export function fits(column: ColumnValue, value: ExactJson): boolean {
  return value === null ? column.nullable : fitsType(column.type, value);
}

function fitsType(type: ColumnType, value: NonNullable<ExactJson>): boolean {
  switch (type.kind) {
    case "null":
      return false;
    case "json":
      return true;
    case "boolean":
      return typeof value === "boolean";
    case "integer":
      return fitsInteger(type, value);
    case "number":
      return typeof value === "number" && fitsNumber(type.bits, value);
    case "decimal":
      return fitsDecimal(type, value);
    case "list":
      return Array.isArray(value) && value.every((element) => fits(type.element, element));
    case "struct":
      return isObject(value) && fitsFields(type.fields, value);
    case "map":
      return fitsMap(type.key, type.value, value);
    default:
      return typeof value === "string" && fitsText(type, value);
  }
}

type TextType = Extract<
  ColumnType,
  { kind: "string" | "bytes" | "uuid" | "date" | "time" | "timestamp" }
>;

function fitsText(type: TextType, text: string): boolean {
  switch (type.kind) {
    case "string":
      // Half a surrogate pair cannot be written as UTF-8.
      return text.isWellFormed();
    case "bytes":
      return fitsBytes(type.length, text);
    case "uuid":
      return uuidPattern.test(text);
    case "date":
      return dateOf(text) !== undefined;
    case "time":
      return timeOf(text, type.unit) !== undefined;
    case "timestamp":
      return timestampOf(text, type.unit, type.isUtc) !== undefined;
  }
}

function fitsInteger(type: IntegerType, value: ExactJson): boolean {
  const { bits, isSigned } = type;
  if (typeof value === "bigint") return type.isWide === true && fitsInt64(value, isSigned);
  if (typeof value !== "number" || !Number.isSafeInteger(value)) return false;
  if (Object.is(value, -0)) return false;
  if (bits === 64) return isSigned || value >= 0;
  const size = 2 ** (isSigned ? bits - 1 : bits);
  return value < size && value >= (isSigned ? -size : 0);
}

function fitsNumber(bits: 16 | 32 | 64, value: number): boolean {
  if (bits === 64 || !Number.isFinite(value)) return true;
  if (bits === 32) return Math.fround(value) === value;
  // The number has 11 bits, and its last bit stands for at least 2^-24.
  const last = 2 ** Math.max(Math.floor(Math.log2(Math.abs(value))) - 10, -24);
  return value === 0 || (Math.abs(value) <= 65_504 && Number.isInteger(value / last));
}

function fitsInt64(value: bigint, isSigned: boolean): boolean {
  return isSigned ? BigInt.asIntN(64, value) === value : BigInt.asUintN(64, value) === value;
}

function fitsDecimal(type: { precision: number; scale: number }, value: ExactJson): boolean {
  const { precision, scale } = type;
  if (precision <= maxNumberDigits) {
    if (typeof value !== "number" || Math.abs(value) >= 10 ** (precision - scale)) return false;
    return Number(value.toFixed(scale)) === value && !Object.is(value, -0);
  }
  const [, whole, fraction = ""] = decimalPattern.exec(String(value)) ?? [];
  if (typeof value !== "string" || whole === undefined) return false;
  const isPlain = whole === "0" || !whole.startsWith("0");
  return isPlain && fraction.length === scale && whole.length <= Math.max(precision - scale, 1);
}

function fitsBytes(length: number | undefined, text: string): boolean {
  if (text.length % 4 !== 0 || !base64Pattern.test(text)) return false;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return length === undefined || (text.length / 4) * 3 - padding === length;
}

function fitsMap(key: ColumnType, value: ColumnValue, map: ExactJson): boolean {
  if (key.kind === "string") {
    return isObject(map) && Object.values(map).every((member) => fits(value, member));
  }
  const entry: Column[] = [
    { name: "key", type: key, nullable: false },
    { ...value, name: "value" },
  ];
  return Array.isArray(map) && map.every((member) => isObject(member) && fitsFields(entry, member));
}

function fitsFields(fields: readonly Column[], value: { [key: string]: ExactJson }): boolean {
  let present = 0;
  for (const field of fields) {
    const member = Object.hasOwn(value, field.name) ? value[field.name]! : undefined;
    if (member !== undefined) present++;
    if (!fits(field, member ?? null)) return false;
  }
  return Object.keys(value).length === present;
}

/** True for an object that is not an array. */
export function isObject(value: ExactJson): value is { [key: string]: ExactJson } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
