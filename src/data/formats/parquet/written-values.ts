import { type ExactJson, exactText } from "../../../foundation/exact-json.ts";
import type { Column, ColumnType } from "../../column-types.ts";
import { dateOf, timeOf, timestampOf } from "../../moments.ts";
import { isKeptAsJson } from "./written-schema.ts";

/** Makes of a row's value that fits its column what the library writes: `bigint`, bytes, lists. */
export type ToWritten = (value: ExactJson) => unknown;

/** The conversion of values of a type; null stays null. */
export function writtenValue(type: ColumnType): ToWritten {
  const convert = conversionOf(type);
  return (value) => (value === null ? null : convert(value));
}

function conversionOf(type: ColumnType): ToWritten {
  if (isKeptAsJson(type)) return exactText;
  switch (type.kind) {
    case "list":
      return listConversion(writtenValue(type.element.type));
    case "struct":
      return structConversion(type.fields);
    case "map":
      return mapConversion(writtenValue(type.key), writtenValue(type.value.type));
    case "integer":
      return type.bits === 64 ? (value) => BigInt(value as number | bigint) : asItIs;
    case "decimal":
      return (value) => unscaled(value, type.scale);
    case "bytes":
      return (value) => Buffer.from(value as string, "base64");
    case "date":
      return (value) => dateOf(value as string);
    case "time":
      return (value) => {
        const since = timeOf(value as string, type.unit)!;
        return type.unit === "milliseconds" ? Number(since) : since;
      };
    case "timestamp":
      return (value) => timestampOf(value as string, type.unit, type.isUtc);
    default:
      return asItIs;
  }
}

function asItIs(value: ExactJson): unknown {
  return value;
}

/** The whole number that a decimal is stored as. */
function unscaled(value: ExactJson, scale: number): bigint {
  if (typeof value === "number") return BigInt(Math.round(value * 10 ** scale));
  return BigInt(String(value).replace(".", ""));
}

function listConversion(convert: ToWritten): ToWritten {
  return (value) => (value as ExactJson[]).map(convert);
}

function structConversion(fields: readonly Column[]): ToWritten {
  const members = fields.map(({ name, type }) => ({ name, convert: writtenValue(type) }));
  return (value) => {
    const object = value as { [key: string]: ExactJson };
    return Object.fromEntries(
      members.map(({ name, convert }) => [name, convert(object[name] ?? null)]),
    );
  };
}

function mapConversion(convertKey: ToWritten, convertValue: ToWritten): ToWritten {
  return (map) => {
    const entries = Array.isArray(map)
      ? (map as { key: ExactJson; value: ExactJson }[]).map(({ key, value }) => [key, value])
      : Object.entries(map as { [key: string]: ExactJson });
    return entries.map(([key, value]) => ({
      key: convertKey(key as ExactJson),
      value: convertValue((value as ExactJson | undefined) ?? null),
    }));
  };
}
