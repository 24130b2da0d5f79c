import type { Column } from "../../column-types.ts";
import type { TimeUnit } from "../../moments.ts";
import { BrokenText, textOf } from "../broken-text.ts";
import { chosenColumns, type RowColumn } from "../table-rows.ts";
import { unreadable } from "../unreadable.ts";
import {
  bytesText,
  dateJson,
  decimalWriter,
  integerWriter,
  jsonText,
  listWriter,
  nullSafe,
  numberWriter,
  type Part,
  plainValue,
  stringText,
  timestampWriter,
  timeWriter,
  uuidWriter,
  type ValueWriter,
} from "../value-writers.ts";
import {
  type ArrowField,
  type ArrowSchema,
  type ArrowType,
  decodeBatch,
  rawTypes,
  typeIds,
} from "./library.ts";
import type { Message } from "./messages.ts";
import { assertWhole } from "./whole-batch.ts";

/** A table's columns, and the schema with which the library reads them. */
export interface ArrowTable {
  columns: ArrowColumn[];
  dictionaries: Dictionaries;
}

interface Dictionary {
  field: ArrowField;
  text(value: unknown): string;
  /** JSON text of each entry. */
  texts: (string | BrokenText)[];
}

/** The entries of a file's dictionaries, as far as it was read. */
class Dictionaries {
  readonly #all = new Map<number, Dictionary>();

  /** @param field of the entries, with raw types. */
  declare(id: number, field: ArrowField, text: (value: unknown) => string): void {
    if (!this.#all.has(id)) this.#all.set(id, { field, text, texts: [] });
  }

  /**
   * Takes the entries of one message.
   *
   * @throws Error if they do not match the message.
   */
  take({ metadata, place, version, dictionary }: Message, body: Uint8Array): void {
    const known = this.#all.get(dictionary!.id);
    if (!known) throw new Error(`dictionary ${dictionary!.id} is of no column`);
    const [batch] = decodeBatch([known.field], { metadata, place, version }, body);
    assertWhole(batch!, dictionary!.entries);
    if (!dictionary!.isDelta) known.texts = [];
    for (const value of Array.from(batch!.slice(0, batch!.length))) {
      known.texts.push(textOrBroken(() => known.text(value)));
    }
  }

  /**
   * The JSON text of the entry for a key.
   *
   * @throws Error if there is no such entry.
   */
  textOf(id: number, key: number): string {
    const text = this.#all.get(id)?.texts[key];
    if (text === undefined) throw new Error(`dictionary ${id} has no entry ${key}`);
    if (typeof text !== "string") throw text;
    return text;
  }
}

function textOrBroken(write: () => string): string | BrokenText {
  try {
    return write();
  } catch (thrown) {
    if (thrown instanceof BrokenText) return thrown;
    throw thrown;
  }
}

/** A column of an Arrow file. Its JSON is written from the stored values. */
export interface ArrowColumn extends RowColumn {
  /** Its index in the schema. */
  number: number;
  /** The field with types that make the library return stored values. */
  raw: ArrowField;
  /** True if stored bytes are text. */
  isText: boolean;
  /** Why the column cannot be read; other columns may still be. */
  fault: string | undefined;
}

/** How a part of a column is written, and its type for the library. */
interface ArrowPart extends Part {
  raw: ArrowType;
}

/**
 * The columns of a file, in the file's order.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if two have the same name.
 */
export function tableOf({ fields }: ArrowSchema, file: string): ArrowTable {
  const dictionaries = new Dictionaries();
  const names = new Set<string>();
  const columns = fields.map((field, number): ArrowColumn => {
    const { name } = field;
    if (names.has(name)) throw unreadable(file, `two columns are named ${name}`);
    names.add(name);
    const types = new Types(dictionaries);
    const { type, nullable, text, raw } = partOf(field, types, file);
    const isText = textTypes.has(field.type.typeId) && type.kind === "string";
    const json = isText || plainTypes.has(field.type.typeId) ? plainValue(type) : undefined;
    const written = { prefix: `${JSON.stringify(name)}:`, text, ...(json && { json }) };
    const column: Column = { name, type, nullable };
    return { column, ...written, number, raw: { ...field, type: raw }, isText, fault: types.fault };
  });
  return { columns, dictionaries };
}

function partOf(field: ArrowField, types: Types, file: string): ArrowPart {
  try {
    return types.partOf(field);
  } catch (cause) {
    const detail = `the type of column ${field.name} is damaged: ${(cause as Error).message}`;
    throw unreadable(file, detail, { cause });
  }
}

/**
 * The columns that rows keep.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if one is absent or cannot be read.
 */
export function keptColumns(
  { columns }: ArrowTable,
  file: string,
  names: readonly string[] | undefined,
): ArrowColumn[] {
  const kept = chosenColumns(columns, file, names);
  const faulty = kept.find(({ fault }) => fault !== undefined);
  if (!faulty) return kept;
  const { column, fault } = faulty;
  const hint = "leave it out: name the others by input.columns";
  throw unreadable(file, `column ${column.name} holds ${fault}, which are not read`, { hint });
}

/** Types whose stored values are passed to `plainValue`. */
const plainTypes: ReadonlySet<number> = new Set([typeIds.int, typeIds.boolean]);

const textTypes: ReadonlySet<number> = new Set([typeIds.text, typeIds.largeText, typeIds.textView]);

const units: readonly TimeUnit[] = ["milliseconds", "milliseconds", "microseconds", "nanoseconds"];
/** The most digits of a decimal. */
const maxScale = 76;
const msPerDay = 86_400_000;

const unreadTypes: Readonly<Record<number, string>> = {
  [typeIds.union]: "unions",
  [typeIds.interval]: "intervals",
};

class Types {
  readonly #dictionaries: Dictionaries;
  /** Why the column cannot be read, if a part has such a type. */
  fault: string | undefined;

  constructor(dictionaries: Dictionaries) {
    this.#dictionaries = dictionaries;
  }

  partOf(field: ArrowField): ArrowPart {
    const { raw, ...writer } = this.#writerOf(field);
    return { ...nullSafe(writer), nullable: field.nullable, raw };
  }

  #writerOf(field: ArrowField): ValueWriter & { raw: ArrowType } {
    const { type } = field;
    const extension = field.metadata?.get("ARROW:extension:name");
    switch (type.typeId) {
      case typeIds.text:
        return { ...textWriter(extension), raw: rawTypes.binary() };
      case typeIds.largeText:
        return { ...textWriter(extension), raw: rawTypes.largeBinary() };
      case typeIds.textView:
        return { ...textWriter(extension), raw: rawTypes.binaryView() };
      case typeIds.fixedBytes:
        return { ...fixedWriter(type, extension), raw: type };
      case typeIds.dictionary:
        return this.#dictionaryWriter(field);
      case typeIds.runs: {
        const [runs, values] = type.children as [ArrowField, ArrowField];
        const { raw, ...part } = this.partOf(values);
        return { ...part, raw: { ...type, children: [runs, { ...values, type: raw }] } };
      }
      case typeIds.struct:
        return this.#structWriter(type);
      case typeIds.map:
        return this.#mapWriter(type);
      case typeIds.list:
      case typeIds.largeList:
      case typeIds.fixedList:
      case typeIds.listView:
      case typeIds.largeListView: {
        const [child] = type.children as [ArrowField];
        const { raw, ...part } = this.partOf(child);
        return { ...listWriter(part), raw: { ...type, children: [{ ...child, type: raw }] } };
      }
      default:
        return this.#plainWriter(type);
    }
  }

  #plainWriter(type: ArrowType): ValueWriter & { raw: ArrowType } {
    const { bitWidth = 64, precision = 0, scale = 0, unit = 0 } = type;
    const long = rawTypes.int(64, true);
    switch (type.typeId) {
      case typeIds.null:
        return { type: { kind: "null" }, text: () => "null", raw: type };
      case typeIds.int:
        return { ...integerWriter(bitWidth as 8 | 16 | 32 | 64, type.signed === true), raw: type };
      case typeIds.float:
        return { ...numberWriter(([16, 32, 64] as const)[precision]!), raw: type };
      case typeIds.boolean:
        return { type: { kind: "boolean" }, text: String, raw: type };
      case typeIds.binary:
      case typeIds.largeBinary:
      case typeIds.binaryView:
        return { type: { kind: "bytes" }, text: bytesText, raw: type };
      case typeIds.decimal:
        if (Math.abs(scale) > maxScale) this.fault = `decimals of scale ${scale}`;
        return { ...decimalWriter(precision, scale), raw: { ...type, scale: 0 } };
      case typeIds.date:
        return { ...dateWriter(unit), raw: unit === 0 ? rawTypes.int(32, true) : long };
      case typeIds.time:
        return {
          ...inMilliseconds(timeWriter(units[unit]!, false), unit),
          raw: rawTypes.int(bitWidth, true),
        };
      case typeIds.timestamp:
        return {
          ...inMilliseconds(timestampWriter(units[unit]!, !!type.timezone), unit),
          raw: long,
        };
      case typeIds.duration:
        return { ...integerWriter(64, true), raw: long };
      default:
        this.fault = unreadTypes[type.typeId] ?? `values of type ${type.typeId}`;
        return { type: { kind: "json" }, text: () => "null", raw: type };
    }
  }

  #structWriter(type: ArrowType): ValueWriter & { raw: ArrowType } {
    const fields = (type.children ?? []).map((field) => ({ field, part: this.partOf(field) }));
    const prefixes = fields.map(({ field }) => `${JSON.stringify(field.name)}:`);
    const columns = fields.map(({ field, part }) => {
      return { name: field.name, type: part.type, nullable: part.nullable };
    });
    return {
      type: { kind: "struct", fields: columns },
      text(value) {
        const members = fields.map(
          ({ part }, at) => prefixes[at]! + part.text((value as unknown[])[at]),
        );
        return `{${members.join(",")}}`;
      },
      // Numbers as names: some names have a special meaning in a JavaScript object.
      raw: rawTypes.struct(
        fields.map(({ field, part }, at) => ({ ...field, name: String(at), type: part.raw })),
      ),
    };
  }

  #mapWriter(type: ArrowType): ValueWriter & { raw: ArrowType } {
    const [entries] = type.children as [ArrowField];
    const [keyField, valueField] = entries.type.children as [ArrowField, ArrowField];
    const [key, value] = [this.partOf(keyField), this.partOf(valueField)];
    const isObject = key.type.kind === "string";
    const raw = rawTypes.struct([
      { ...keyField, type: key.raw },
      { ...valueField, type: value.raw },
    ]);
    return {
      type: { kind: "map", key: key.type, value: { type: value.type, nullable: value.nullable } },
      text(map) {
        const texts = (map as [unknown, unknown][]).map(([k, v]) =>
          isObject
            ? `${key.text(k)}:${value.text(v)}`
            : `{"key":${key.text(k)},"value":${value.text(v)}}`,
        );
        return isObject ? `{${texts.join(",")}}` : `[${texts.join(",")}]`;
      },
      raw: { ...type, children: [{ ...entries, type: raw }] },
    };
  }

  /** The library returns keys. The entries are kept as JSON text. */
  #dictionaryWriter({ type, metadata }: ArrowField): ValueWriter & { raw: ArrowType } {
    const { id = 0, dictionary, indices } = type;
    const entry = { name: "", type: dictionary!, nullable: true, metadata };
    const { raw, ...part } = this.partOf(entry);
    this.#dictionaries.declare(id, { ...entry, type: raw }, part.text);
    const text = (key: unknown) => this.#dictionaries.textOf(id, Number(key));
    return { type: part.type, text, raw: indices! };
  }
}

function textWriter(extension: string | undefined): ValueWriter {
  const isJson = extension === "arrow.json";
  const write = isJson ? jsonText : stringText;
  return {
    type: { kind: isJson ? "json" : "string" },
    text: (value) => write(value instanceof Uint8Array ? textOf(value) : value),
  };
}

function fixedWriter({ stride = 0 }: ArrowType, extension: string | undefined): ValueWriter {
  if (extension === "arrow.uuid" && stride === 16) return uuidWriter;
  return { type: { kind: "bytes", length: stride }, text: bytesText };
}

/** A date is stored in days, or in milliseconds that make whole days. */
function dateWriter(unit: number): ValueWriter {
  const text = (value: unknown) => dateJson(unit === 0 ? value : Number(value) / msPerDay);
  return { type: { kind: "date" }, text };
}

/** Values in seconds are written in milliseconds. */
function inMilliseconds(writer: ValueWriter, unit: number): ValueWriter {
  if (unit !== 0) return writer;
  return { ...writer, text: (value) => writer.text(BigInt(value as number | bigint) * 1000n) };
}
