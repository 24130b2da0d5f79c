import { isUtf8 } from "node:buffer";
import { SluiceError } from "../../../foundation/errors.ts";
import type { JsonObject } from "../../../foundation/json.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { RowReadOptions } from "../format.ts";
import { faultyRow } from "../parse-row.ts";
import type { Header } from "./header.ts";
import { type FieldReader, fieldReader } from "./typed-text.ts";

/** A field that rows keep, and how it is read; without a reader, as text. */
interface KeptField {
  name: string;
  /** Place in the record, from 0. */
  at: number;
  read: FieldReader | undefined;
}

/** Where a record lies. */
export interface RecordPlace {
  index: number;
  line: number;
}

/** Makes rows of the fields of records. */
export class RecordRows {
  readonly #file: string;
  readonly #header: Header;
  readonly #maxLineBytes: number;
  readonly #kept: readonly KeptField[];
  /** Values can be set one by one: all are text, and no name means something else. */
  readonly #isPlain: boolean;

  constructor(header: Header, slice: Slice, options: RowReadOptions) {
    const { columns = header.names, schema, maxLineBytes } = options;
    this.#file = slice.file;
    this.#header = header;
    this.#maxLineBytes = maxLineBytes;
    const places = new Map(header.names.map((name, at) => [name, at]));
    this.#kept = columns.flatMap((name) => {
      const at = places.get(name);
      return at === undefined ? [] : { name, at, read: schema && fieldReader(schema, name) };
    });
    this.#isPlain = schema === undefined && !header.names.includes("__proto__");
  }

  /** The row of a record's fields; `raw` gives its text, for one that is at fault. */
  row(fields: readonly string[], place: RecordPlace, raw: () => string): InputRow {
    const { names } = this.#header;
    if (fields.length !== names.length) {
      return this.#fault(place, raw(), raggedDetail(fields, names), names[fields.length]);
    }
    const { index, line } = place;
    const value = this.#isPlain ? this.#plainValue(fields) : undefined;
    const json = value ? JSON.stringify(value) : this.#jsonText(fields);
    return { index, file: this.#file, line, raw: json, value: value ?? JSON.parse(json) };
  }

  /** The row of a record that is too long, no UTF-8, or has a NUL byte or a quote amiss. */
  unreadable(bytes: Buffer, place: RecordPlace, isWhole: boolean): InputRow {
    if (isWhole && isUtf8(bytes) && !bytes.includes(0)) {
      return this.#fault(place, bytes.toString(), "text follows a closing quote", undefined);
    }
    const found = { index: place.index, file: this.#file, line: place.line };
    return faultyRow(bytes, found, isWhole, this.#maxLineBytes);
  }

  #fault(
    { index, line }: RecordPlace,
    raw: string,
    detail: string,
    field: string | undefined,
  ): InputRow {
    const file = this.#file;
    const error = new SluiceError("CSV_INVALID", detail, { file, line, field });
    return { index, file, line, raw, error };
  }

  #plainValue(fields: readonly string[]): JsonObject {
    const value: JsonObject = {};
    for (const { name, at } of this.#kept) value[name] = fields[at]!;
    return value;
  }

  #jsonText(fields: readonly string[]): string {
    const members: string[] = [];
    for (const { name, at, read } of this.#kept) {
      const json = read ? read(fields[at]!) : JSON.stringify(fields[at]!);
      if (json !== undefined) members.push(`${JSON.stringify(name)}:${json}`);
    }
    return `{${members.join(",")}}`;
  }
}

function raggedDetail(fields: readonly string[], names: readonly string[]): string {
  const count = fields.length === 1 ? "1 field" : `${fields.length} fields`;
  const counts = `it has ${count}, the header has ${names.length}`;
  const next = names[fields.length];
  if (next !== undefined) return `${counts}: the first that is missing is ${JSON.stringify(next)}`;
  const extra = JSON.stringify(fields[names.length]!.slice(0, 40));
  return `${counts}: the first that is too many is ${extra}`;
}
