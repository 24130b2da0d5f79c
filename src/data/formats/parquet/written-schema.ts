import type { ConvertedType, LogicalType, SchemaElement } from "hyparquet";
import type { Column, ColumnType } from "../../column-types.ts";
import type { TimeUnit } from "../../moments.ts";

/** The schema of a file with these columns; lists, structs and maps in Parquet's standard form. */
export function writtenSchema(columns: readonly Column[]): SchemaElement[] {
  return [{ name: "schema", num_children: columns.length }, ...columns.flatMap(elementsOf)];
}

/** Most digits of a decimal stored as INT32, and as INT64. */
const int32Digits = 9;
const int64Digits = 18;

const unitNames = { milliseconds: "MILLIS", microseconds: "MICROS", nanoseconds: "NANOS" } as const;

/** Parquet cannot store a struct without fields. */
export function isKeptAsJson(type: ColumnType): boolean {
  return type.kind === "json" || (type.kind === "struct" && type.fields.length === 0);
}

function elementsOf({ name, type, nullable }: Column): SchemaElement[] {
  const repetition = { name, repetition_type: nullable ? "OPTIONAL" : "REQUIRED" } as const;
  if (isKeptAsJson(type)) {
    // With the older type name too, the library would convert the text again.
    return [{ ...repetition, type: "BYTE_ARRAY", logical_type: { type: "JSON" } }];
  }
  switch (type.kind) {
    case "list":
      return [
        { ...repetition, num_children: 1, ...both("LIST", { type: "LIST" }) },
        { name: "list", repetition_type: "REPEATED", num_children: 1 },
        ...elementsOf({ ...type.element, name: "element" }),
      ];
    case "map":
      return [
        { ...repetition, num_children: 1, ...both("MAP", { type: "MAP" }) },
        { name: "key_value", repetition_type: "REPEATED", num_children: 2 },
        ...elementsOf({ name: "key", type: type.key, nullable: false }),
        ...elementsOf({ ...type.value, name: "value" }),
      ];
    case "struct":
      return [
        { ...repetition, num_children: type.fields.length },
        ...type.fields.flatMap(elementsOf),
      ];
    default:
      return [{ ...repetition, ...leafElement(type) }];
  }
}

type LeafType = Exclude<ColumnType, { kind: "list" | "map" | "struct" | "json" }>;
type Leaf = Omit<SchemaElement, "name">;

function leafElement(type: LeafType | { kind: "json" }): Leaf {
  switch (type.kind) {
    case "null":
      return { type: "INT32", repetition_type: "OPTIONAL", logical_type: { type: "NULL" } };
    case "boolean":
      return { type: "BOOLEAN" };
    case "integer":
      return integerElement(type.bits, type.isSigned);
    case "number":
      if (type.bits === 16) return { ...fixed(2), logical_type: { type: "FLOAT16" } };
      return { type: type.bits === 32 ? "FLOAT" : "DOUBLE" };
    case "decimal":
      return decimalElement(type.precision, type.scale);
    case "bytes":
      return type.length === undefined ? { type: "BYTE_ARRAY" } : fixed(type.length);
    case "uuid":
      return { ...fixed(16), logical_type: { type: "UUID" } };
    case "date":
      return { type: "INT32", ...both("DATE", { type: "DATE" }) };
    case "time":
      return timeElement(type.unit, type.isUtc);
    case "timestamp":
      return timestampElement(type.unit, type.isUtc);
    default:
      return { type: "BYTE_ARRAY", ...both("UTF8", { type: "STRING" }) };
  }
}

/** The older and the newer name of a type. */
function both(converted: ConvertedType, logical: LogicalType): Omit<Leaf, "type"> {
  return { converted_type: converted, logical_type: logical };
}

function fixed(length: number): Leaf {
  return { type: "FIXED_LEN_BYTE_ARRAY", type_length: length };
}

function integerElement(bits: 8 | 16 | 32 | 64, isSigned: boolean): Leaf {
  const type = bits === 64 ? "INT64" : "INT32";
  if (isSigned && bits >= 32) return { type };
  // The library writes the newer name with a bit width that other readers cannot decode.
  return { type, converted_type: `${isSigned ? "INT" : "UINT"}_${bits}` };
}

function decimalElement(precision: number, scale: number): Leaf {
  const logical = { type: "DECIMAL", precision, scale } as const;
  const named = { ...both("DECIMAL", logical), precision, scale };
  if (precision <= int32Digits) return { type: "INT32", ...named };
  if (precision <= int64Digits) return { type: "INT64", ...named };
  const bits = Math.ceil(Math.log2(10) * precision) + 1;
  return { ...fixed(Math.ceil(bits / 8)), ...named };
}

function timeElement(unit: TimeUnit, isUtc: boolean): Leaf {
  const type = unit === "milliseconds" ? "INT32" : "INT64";
  const logical = { type: "TIME", isAdjustedToUTC: isUtc, unit: unitNames[unit] } as const;
  // The older names have no times without a zone, and no nanoseconds.
  if (!isUtc || unit === "nanoseconds") return { type, logical_type: logical };
  return { type, ...both(`TIME_${unit === "milliseconds" ? "MILLIS" : "MICROS"}`, logical) };
}

function timestampElement(unit: TimeUnit, isUtc: boolean): Leaf {
  const type = "INT64";
  const logical = { type: "TIMESTAMP", isAdjustedToUTC: isUtc, unit: unitNames[unit] } as const;
  if (!isUtc || unit === "nanoseconds") return { type, logical_type: logical };
  return { type, ...both(`TIMESTAMP_${unit === "milliseconds" ? "MILLIS" : "MICROS"}`, logical) };
}
