import type { SchemaElement } from "hyparquet";
import { parseFloat16 } from "hyparquet/src/convert.js";
import type { ColumnType } from "../../column-types.ts";
import { maxNumberDigits } from "../../column-types.ts";
import { dateText, type TimeUnit, timestampText, timeText } from "../../moments.ts";
import { unreadableText } from "./text.ts";

/** How values of one type are written as JSON. */
export interface ValueWriter {
  type: ColumnType;
  /** The JSON text of a stored value that is not null. */
  text(value: unknown): string;
}

/** The type of a leaf of the schema, and how its stored values become JSON. */
export function leafWriter(element: SchemaElement): ValueWriter {
  const logical = element.logical_type;
  switch (logical?.type) {
    case "DECIMAL":
      return decimalWriter(logical.precision, logical.scale);
    case "TIME":
      return timeWriter(unitNamed(logical.unit), logical.isAdjustedToUTC);
    case "TIMESTAMP":
      return timestampWriter(unitNamed(logical.unit), logical.isAdjustedToUTC);
    case "INTEGER":
      return integerWriter(bitsOf(logical.bitWidth), logical.isSigned);
    case "UUID":
      return uuidWriter;
    case "FLOAT16":
      return {
        ...numberWriter(16),
        text: (value) => numberText(parseFloat16(value as Uint8Array)!),
      };
    case "NULL":
      return { type: { kind: "null" }, text: () => "null" };
  }
  return convertedWriter(element) ?? physicalWriter(element);
}

/** By the older names of types, which newer files carry as well. */
function convertedWriter(element: SchemaElement): ValueWriter | undefined {
  const name = element.converted_type ?? element.logical_type?.type;
  switch (name) {
    case "UTF8":
    case "STRING":
    case "ENUM":
      return { type: { kind: "string" }, text: stringText };
    case "JSON":
      return { type: { kind: "json" }, text: jsonText };
    case "DATE":
      return { type: { kind: "date" }, text: dateJson };
    case "DECIMAL":
      return decimalWriter(element.precision ?? 38, element.scale ?? 0);
    case "TIME_MILLIS":
    case "TIME_MICROS":
      return timeWriter(name === "TIME_MILLIS" ? "milliseconds" : "microseconds", true);
    case "TIMESTAMP_MILLIS":
    case "TIMESTAMP_MICROS":
      return timestampWriter(name === "TIMESTAMP_MILLIS" ? "milliseconds" : "microseconds", true);
  }
  const [, sign, bits] = /^(U?)INT_(8|16|32|64)$/.exec(name ?? "") ?? [];
  return bits === undefined ? undefined : integerWriter(bitsOf(Number(bits)), sign === "");
}

function physicalWriter({ type, type_length: length }: SchemaElement): ValueWriter {
  switch (type) {
    case "BOOLEAN":
      return { type: { kind: "boolean" }, text: String };
    case "INT32":
      return integerWriter(32, true);
    case "INT64":
      return integerWriter(64, true);
    case "INT96":
      return timestampWriter("nanoseconds", false);
    case "FLOAT":
      return numberWriter(32);
    case "DOUBLE":
      return numberWriter(64);
    case "FIXED_LEN_BYTE_ARRAY":
      return { type: { kind: "bytes", ...(length && { length }) }, text: bytesText };
    default:
      return { type: { kind: "bytes" }, text: bytesText };
  }
}

function unitNamed(unit: "MILLIS" | "MICROS" | "NANOS"): TimeUnit {
  return ({ MILLIS: "milliseconds", MICROS: "microseconds", NANOS: "nanoseconds" } as const)[unit];
}

function bitsOf(bits: number): 8 | 16 | 32 | 64 {
  return bits === 8 || bits === 16 || bits === 64 ? bits : 32;
}

function integerWriter(bits: 8 | 16 | 32 | 64, isSigned: boolean): ValueWriter {
  const type: ColumnType = { kind: "integer", bits, isSigned };
  if (isSigned) return { type, text: String };
  const text = (value: unknown) =>
    typeof value === "bigint" ? String(BigInt.asUintN(64, value)) : String((value as number) >>> 0);
  return { type, text };
}

function numberWriter(bits: 16 | 32 | 64): ValueWriter {
  return { type: { kind: "number", bits }, text: (value) => numberText(value as number) };
}

/** JSON has no infinity. With an exponent, a whole number that no double counts stays a double. */
function numberText(value: number): string {
  if (!Number.isFinite(value)) return "null";
  if (Object.is(value, -0)) return "-0";
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  return isLarge ? value.toExponential() : String(value);
}

function decimalWriter(precision: number, scale: number): ValueWriter {
  const type: ColumnType = { kind: "decimal", precision, scale };
  const isNumber = precision <= maxNumberDigits;
  const text = (value: unknown) => {
    const digits = decimalText(unscaled(value), scale);
    return isNumber ? digits : `"${digits}"`;
  };
  return { type, text };
}

/** The whole number that a decimal is stored as. */
function unscaled(value: unknown): bigint {
  if (!(value instanceof Uint8Array)) return BigInt(value as number | bigint);
  const digits = Buffer.from(value).toString("hex");
  return digits === "" ? 0n : BigInt.asIntN(value.length * 8, BigInt(`0x${digits}`));
}

function decimalText(value: bigint, scale: number): string {
  if (scale <= 0) return String(value * 10n ** BigInt(-scale));
  const sign = value < 0n ? "-" : "";
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, "0");
  return `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

function timeWriter(unit: TimeUnit, isUtc: boolean): ValueWriter {
  return {
    type: { kind: "time", unit, isUtc },
    text: (value) => momentJson(value, timeText(BigInt(value as number), unit)),
  };
}

function timestampWriter(unit: TimeUnit, isUtc: boolean): ValueWriter {
  return {
    type: { kind: "timestamp", unit, isUtc },
    text: (value) => momentJson(value, timestampText(BigInt(value as number), unit, isUtc)),
  };
}

function dateJson(value: unknown): string {
  return momentJson(value, dateText(value as number));
}

/** What no calendar counts stays the number that it is stored as. */
function momentJson(value: unknown, text: string | undefined): string {
  return `"${text ?? String(value)}"`;
}

const uuidWriter: ValueWriter = {
  type: { kind: "uuid" },
  text(value) {
    const hex = Buffer.from(value as Uint8Array).toString("hex");
    const [, a, b, c, d, e] = /^(.{8})(.{4})(.{4})(.{4})(.*)$/.exec(hex)!;
    return `"${a}-${b}-${c}-${d}-${e}"`;
  },
};

function bytesText(value: unknown): string {
  const bytes = value as Uint8Array;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return `"${buffer.toString("base64")}"`;
}

function stringText(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : unreadableText(value);
}

/** The JSON that a column of JSON holds; text that is none stays text. */
function jsonText(value: unknown): string {
  if (typeof value !== "string") return unreadableText(value);
  try {
    JSON.parse(value);
    return /[\r\n]/.test(value) ? value.replaceAll(/[\r\n]+/g, " ") : value;
  } catch {
    return JSON.stringify(value);
  }
}
