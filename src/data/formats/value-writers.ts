import { specialText } from "../../foundation/exact-json.ts";
import { type Json, jsonIn } from "../../foundation/json.ts";
import { type ColumnType, type ColumnValue, maxNumberDigits } from "../column-types.ts";
import { dateText, type TimeUnit, timestampText, timeText } from "../moments.ts";
import { unreadableText } from "./broken-text.ts";

/** Writes values of one type as JSON. */
export interface ValueWriter {
  type: ColumnType;
  /** The JSON text of a stored value, which is not null. */
  text(value: unknown): string;
}

/** For types whose values are stored as in JSON, or nearly: the JSON value. */
export function plainValue(type: ColumnType): ((value: unknown) => Json) | undefined {
  if (type.kind === "string" || type.kind === "boolean") return (value) => (value as Json) ?? null;
  if (type.kind !== "integer" || !type.isSigned) return undefined;
  return (value) => (value === null || value === undefined ? null : Number(value));
}

/** A type, whether its values may be null, and the JSON text of a value, including null. */
export interface Part extends ColumnValue {
  text(value: unknown): string;
}

/** A writer that also writes null. */
export function nullSafe({ type, text }: ValueWriter): ValueWriter {
  return { type, text: (value) => (value === null || value === undefined ? "null" : text(value)) };
}

export function listWriter(element: Part): ValueWriter {
  const { type, nullable, text } = element;
  return {
    type: { kind: "list", element: { type, nullable } },
    text(value) {
      const texts = Array.from(value as unknown[], text);
      return `[${texts.join(",")}]`;
    },
  };
}

export function integerWriter(bits: 8 | 16 | 32 | 64, isSigned: boolean): ValueWriter {
  const type: ColumnType = { kind: "integer", bits, isSigned };
  if (isSigned) return { type, text: String };
  const text = (value: unknown) =>
    typeof value === "bigint" ? String(BigInt.asUintN(64, value)) : String((value as number) >>> 0);
  return { type, text };
}

export function numberWriter(bits: 16 | 32 | 64): ValueWriter {
  return { type: { kind: "number", bits }, text: (value) => numberText(value as number) };
}

/**
 * The text of a float; NaN and infinities are `specialText`. A large whole number gets an exponent,
 * so that it is read as a float again.
 */
export function numberText(value: number): string {
  if (!Number.isFinite(value)) return specialText(value);
  if (Object.is(value, -0)) return "-0";
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  return isLarge ? value.toExponential() : String(value);
}

export function decimalWriter(precision: number, scale: number): ValueWriter {
  const type: ColumnType = { kind: "decimal", precision, scale };
  const isNumber = precision <= maxNumberDigits;
  const text = (value: unknown) => {
    const digits = decimalText(unscaled(value), scale);
    return isNumber ? digits : `"${digits}"`;
  };
  return { type, text };
}

/** The whole number in which a decimal is stored. */
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

export function timeWriter(unit: TimeUnit, isUtc: boolean): ValueWriter {
  return {
    type: { kind: "time", unit, isUtc },
    text: (value) => momentJson(value, timeText(BigInt(value as number), unit)),
  };
}

export function timestampWriter(unit: TimeUnit, isUtc: boolean): ValueWriter {
  return {
    type: { kind: "timestamp", unit, isUtc },
    text: (value) => momentJson(value, timestampText(BigInt(value as number), unit, isUtc)),
  };
}

export function dateJson(value: unknown): string {
  return momentJson(value, dateText(value as number));
}

/** A moment beyond the calendar is written as the number in which it is stored. */
function momentJson(value: unknown, text: string | undefined): string {
  return `"${text ?? String(value)}"`;
}

export const uuidWriter: ValueWriter = {
  type: { kind: "uuid" },
  text(value) {
    const hex = Buffer.from(value as Uint8Array).toString("hex");
    const [, a, b, c, d, e] = /^(.{8})(.{4})(.{4})(.{4})(.*)$/.exec(hex)!;
    return `"${a}-${b}-${c}-${d}-${e}"`;
  },
};

export function bytesText(value: unknown): string {
  const bytes = value as Uint8Array;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return `"${buffer.toString("base64")}"`;
}

export function stringText(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : unreadableText(value);
}

/** The JSON text in a column of JSON; text that is not JSON becomes a string. */
export function jsonText(value: unknown): string {
  if (typeof value !== "string") return unreadableText(value);
  if (jsonIn(value) === undefined) return JSON.stringify(value);
  return /[\r\n]/.test(value) ? value.replaceAll(/[\r\n]+/g, " ") : value;
}
