import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { shown } from "../../foundation/suggest.ts";
import type { AnswerForm } from "../answer-form.ts";
import { anyObjectForm } from "../structure/any-object.ts";
import { compileStructuredForm } from "../structure/structured-form.ts";
import { invalid, missing, unsupported } from "./request-faults.ts";

/** Compiled forms that are kept. */
const maxForms = 64;

const field = "body.response_format";

/** The form of an answer: JSON of a schema, or any JSON object. */
export type ResponseFormat = { schema: JsonObject } | "json_object";

/**
 * The form in a body's `response_format`; undefined if any text will do.
 *
 * @throws SluiceError `PARAMETER_MISSING`, `PARAMETER_INVALID`, `PARAMETER_UNSUPPORTED`.
 */
export function formatOfBody({ response_format: format }: JsonObject): ResponseFormat | undefined {
  if (format === undefined || format === null) return undefined;
  if (!isJsonObject(format)) throw invalid(field, "an object", format);
  if (format.type === "text") return undefined;
  if (format.type === "json_object") return format.type;
  if (format.type !== "json_schema") {
    const known = "text, json_object and json_schema are";
    throw unsupported(`${field}.type`, `${shown(format.type ?? null)}; ${known}`);
  }
  const schema = isJsonObject(format.json_schema) ? format.json_schema.schema : undefined;
  if (schema === undefined || schema === null) throw missing(`${field}.json_schema.schema`);
  if (!isJsonObject(schema)) throw invalid(`${field}.json_schema.schema`, "an object", schema);
  return { schema };
}

/** Values made of JSON, such as compiled forms: lines of one file usually have the same. */
export class MadeOnce<Made> {
  readonly #made = new Map<string, Made>();

  of<Source extends Json>(source: Source, make: (source: Source) => Made): Made {
    const text = JSON.stringify(source);
    const known = this.#made.get(text);
    if (known !== undefined) return known;
    const made = make(source);
    if (this.#made.size >= maxForms) this.#made.clear();
    this.#made.set(text, made);
    return made;
  }
}

/** @throws SluiceError `PARAMETER_UNSUPPORTED`, which names the place in the schema. */
export function formOf(format: ResponseFormat): AnswerForm {
  if (format === "json_object") return anyObjectForm();
  return schemaForm(format.schema, `${field}.json_schema.schema`);
}

/** @throws SluiceError `PARAMETER_UNSUPPORTED`, which names the place in the schema. */
export function schemaForm(schema: JsonObject, place: string): AnswerForm {
  try {
    return compileStructuredForm(schema, place);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    // The message is written for schemas of the job, whose errors end the run.
    const problem = error.message.replace(/^[^:]*: /, "").replace(/ \(field [^()]*\)$/, "");
    throw unsupported(error.place.field ?? place, problem);
  }
}
