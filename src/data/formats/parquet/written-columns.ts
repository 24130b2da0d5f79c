import {
  type ExactJson,
  type ExactRow,
  exactText,
  parseExactly,
} from "../../../foundation/exact-json.ts";
import { ColumnMisfit, fits } from "../../column-fit.ts";
import type { Column, ColumnType } from "../../column-types.ts";
import { dateOf, timeOf, timestampOf } from "../../moments.ts";
import { isKeptAsJson } from "./written-schema.ts";

interface WrittenColumn extends Column {
  convert: ToWritten;
  /** False for JSON: its bounds would be whole documents that no reader can use. */
  statistics: boolean;
  values: unknown[];
}

/** Converts a JSON value that fits its column to one for the library: `bigint`, bytes, lists. */
type ToWritten = (value: ExactJson) => unknown;

/** The conversion for a type; null stays null. */
function writtenValue(type: ColumnType): ToWritten {
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

/** The whole number as which a decimal is stored. */
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
      members.map(({ name, convert }) => [
        name,
        convert(Object.hasOwn(object, name) ? object[name]! : null),
      ]),
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

/** A column's values in the form that the library takes. */
export interface ColumnData {
  name: string;
  statistics: boolean;
  data: unknown[];
}

/** Types whose values may hold numbers at any depth. */
const nestedKinds = new Set(["list", "struct", "map", "json"]);

/** Collects the values of columns row by row. */
export class WrittenColumns {
  readonly #columns: readonly WrittenColumn[];
  readonly #isFlat: boolean;

  constructor(columns: readonly Column[]) {
    this.#columns = columns.map((column) => ({
      ...column,
      convert: writtenValue(column.type),
      statistics: !holdsJson(column.type),
      values: [],
    }));
    this.#isFlat = columns.every(({ type }) => !nestedKinds.has(type.kind));
  }

  /**
   * Adds the values of a row.
   *
   * @param line the row as JSON text.
   * @param isWhole true if the row may have no fields but these columns.
   * @throws ColumnMisfit
   */
  add(line: string, isWhole: boolean): void {
    const row = this.#parse(line);
    let present = 0;
    for (const column of this.#columns) {
      const isPresent = Object.hasOwn(row, column.name);
      if (isPresent) present++;
      addValue(column, isPresent ? row[column.name]! : null);
    }
    if (isWhole && Object.keys(row).length > present) throw this.#unknownColumn(row);
  }

  /**
   * Adds a value of the only column.
   *
   * @returns false if the text is not JSON.
   * @throws ColumnMisfit
   */
  addValue(text: string): boolean {
    let value: ExactJson;
    try {
      value = this.#isFlat ? (JSON.parse(text) as ExactJson) : parseExactly(text);
      if (this.#isFlat && isInexact(value)) value = parseExactly(text);
    } catch {
      return false;
    }
    addValue(this.#columns[0]!, value);
    return true;
  }

  /** Returns the collected values and starts anew. */
  take(): ColumnData[] {
    return this.#columns.map((column) => {
      const { name, statistics, values } = column;
      column.values = [];
      return { name, statistics, data: values };
    });
  }

  /** Searches parsed values for numbers that lost digits: faster than searching the text. */
  #parse(line: string): ExactRow {
    const row = (this.#isFlat ? JSON.parse(line) : parseExactly(line)) as ExactRow;
    if (!this.#isFlat || !this.#columns.some(({ name }) => isInexact(row[name]))) return row;
    return parseExactly(line) as ExactRow;
  }

  #unknownColumn(row: ExactRow): ColumnMisfit {
    const names = new Set(this.#columns.map(({ name }) => name));
    const unknown = Object.keys(row).find((name) => !names.has(name));
    return new ColumnMisfit(`column ${unknown} is in a row and not in the file`);
  }
}

function addValue(column: WrittenColumn, value: ExactJson): void {
  if (!fits(column, value)) {
    const shown = exactText(value).slice(0, 100);
    throw new ColumnMisfit(`column ${column.name} of the file cannot hold ${shown}`);
  }
  column.values.push(column.convert(value));
}

/** Whether the number in the text may have had more digits. */
function isInexact(value: ExactJson | undefined): boolean {
  if (typeof value !== "number") return false;
  return Number.isInteger(value) ? !Number.isSafeInteger(value) : !Number.isFinite(value);
}

function holdsJson(type: ColumnType): boolean {
  if (type.kind === "list") return holdsJson(type.element.type);
  if (type.kind === "map") return holdsJson(type.value.type);
  if (type.kind === "struct") {
    return isKeptAsJson(type) || type.fields.some((field) => holdsJson(field.type));
  }
  return type.kind === "json";
}
