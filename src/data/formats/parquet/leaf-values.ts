import type { SchemaElement } from "hyparquet";
import { parseFloat16 } from "hyparquet/src/convert.js";
import type { TimeUnit } from "../../moments.ts";
import {
  bytesText,
  dateJson,
  decimalWriter,
  integerWriter,
  jsonText,
  numberText,
  numberWriter,
  stringText,
  timestampWriter,
  timeWriter,
  uuidWriter,
  type ValueWriter,
} from "../value-writers.ts";

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

/** For the older type names, which newer files have too. */
function convertedWriter(element: SchemaElement): ValueWriter | undefined {
  const name = element.converted_type ?? element.logical_type?.type;
  switch (name) {
    case "UTF8":
    case "STRING":
    case "ENUM":
      return { type: { kind: "string" }, text: stringText };
    case "INTERVAL":
      return { type: { kind: "string" }, text: intervalText };
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

/** Months, days and milliseconds, 4 bytes each, in ISO 8601: `P1Y2M3DT4H5M6.789S`. */
function intervalText(value: unknown): string {
  const { buffer, byteOffset, byteLength } = value as Uint8Array;
  const view = new DataView(buffer, byteOffset, byteLength);
  const [months, days, ms] = [0, 4, 8].map((at) => view.getUint32(at, true)) as [
    number,
    number,
    number,
  ];
  const part = (count: number, unit: string) => (count === 0 ? "" : `${count}${unit}`);
  const date = part(Math.floor(months / 12), "Y") + part(months % 12, "M") + part(days, "D");
  const minutes = Math.floor(ms / 60_000);
  const seconds = part((ms % 60_000) / 1000, "S");
  const time = part(Math.floor(minutes / 60), "H") + part(minutes % 60, "M") + seconds;
  return `"P${date}${time !== "" ? `T${time}` : date === "" ? "T0S" : ""}"`;
}

function unitNamed(unit: "MILLIS" | "MICROS" | "NANOS"): TimeUnit {
  return ({ MILLIS: "milliseconds", MICROS: "microseconds", NANOS: "nanoseconds" } as const)[unit];
}

function bitsOf(bits: number): 8 | 16 | 32 | 64 {
  return bits === 8 || bits === 16 || bits === 64 ? bits : 32;
}
