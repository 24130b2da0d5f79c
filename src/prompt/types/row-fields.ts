import { SluiceError } from "../../foundation/errors.ts";
import { parseWritten, type WrittenJson, type WrittenRow } from "../../foundation/exact-json.ts";
import { wrongType } from "../field-errors.ts";
import { isObject, isScalar, kindOf, printValue } from "../value-text.ts";

/** Reads the fields of a row, or of an object in it, for a prompt type. */
export class RowFields {
  readonly #row: WrittenRow;
  readonly #place: string;
  readonly #path: string;

  /**
   * @param place for messages: `prompts.answer.type`.
   * @param path of the object in the row, with a dot at its end: `messages[2].`.
   */
  constructor(row: WrittenRow, place: string, path = "") {
    this.#row = row;
    this.#place = place;
    this.#path = path;
  }

  /** True if the field exists and is not null. */
  has(field: string): boolean {
    return this.value(field) !== undefined;
  }

  /**
   * The text of a required field. Numbers and booleans are printed.
   *
   * @throws SluiceError `VARIABLE_MISSING`, or `FIELD_TYPE` for null, lists and objects.
   */
  text(field: string): string {
    const value = this.#required(field);
    if (isScalar(value)) return printValue(value);
    throw this.wrong(field, `it reads a text, and finds ${kindOf(value)}`);
  }

  /** The text of an optional field; empty if it is absent or null. */
  optionalText(field: string): string {
    return this.has(field) ? this.text(field) : "";
  }

  /** A required field of any type. @throws SluiceError `VARIABLE_MISSING`. */
  json(field: string): WrittenJson {
    return this.#required(field);
  }

  /**
   * The elements of a required field that is a list, or the JSON text of a list.
   *
   * @throws SluiceError `VARIABLE_MISSING` or `FIELD_TYPE`.
   */
  list(field: string): WrittenJson[] {
    const value = this.#required(field);
    const list = typeof value === "string" ? parsed(value) : value;
    if (Array.isArray(list)) return list;
    throw this.wrong(field, `it reads a list, and finds ${kindOf(value)}`);
  }

  /** The elements of a list of texts, numbers and booleans. */
  texts(field: string): string[] {
    return this.list(field).map((element, at) => {
      if (isScalar(element)) return printValue(element);
      throw this.wrong(`${field}[${at}]`, `it reads a text, and finds ${kindOf(element)}`);
    });
  }

  /** The elements of a list of objects; each knows its place for messages. */
  objects(field: string): RowFields[] {
    return this.list(field).map((element, at) => {
      const path = `${field}[${at}]`;
      if (!isObject(element)) {
        throw this.wrong(path, `it reads an object, and finds ${kindOf(element)}`);
      }
      return new RowFields(element, this.#place, `${this.#path}${path}.`);
    });
  }

  /** The field of any type; undefined if it is absent or null. */
  value(field: string): WrittenJson | undefined {
    return Object.hasOwn(this.#row, field) ? (this.#row[field] ?? undefined) : undefined;
  }

  /** The error of a field whose value cannot be used. */
  wrong(field: string, problem: string): SluiceError {
    return wrongType({ name: this.#place }, problem, this.#path + field);
  }

  #required(field: string): WrittenJson {
    if (Object.hasOwn(this.#row, field)) return this.#row[field]!;
    throw new SluiceError("VARIABLE_MISSING", `${this.#place} reads it`, {
      field: this.#path + field,
      hint: "correct the row, or take a type that reads the fields it has",
    });
  }
}

function parsed(text: string): unknown {
  try {
    return parseWritten(text);
  } catch {
    return undefined;
  }
}
