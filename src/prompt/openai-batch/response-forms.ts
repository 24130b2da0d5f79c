import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../../foundation/json.ts";
import type { AnswerForm } from "../answer-form.ts";
import { anyObjectForm } from "../structure/any-object.ts";
import { compileStructuredForm } from "../structure/structured-form.ts";
import { invalid, missing, shown, unsupported } from "./request-faults.ts";

/** Compiled answer forms that are kept. */
const maxResponseForms = 64;

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

/** The answer forms of lines, compiled once for all lines with the same form. */
export class ResponseForms {
  readonly #byFormat = new Map<string, AnswerForm>();

  /** @throws SluiceError `PARAMETER_UNSUPPORTED`, which names the place in the schema. */
  of(format: ResponseFormat): AnswerForm {
    const text = JSON.stringify(format);
    const known = this.#byFormat.get(text);
    if (known) return known;
    const form = format === "json_object" ? anyObjectForm() : compiled(format.schema);
    if (this.#byFormat.size >= maxResponseForms) this.#byFormat.clear();
    this.#byFormat.set(text, form);
    return form;
  }
}

function compiled(schema: JsonObject): AnswerForm {
  try {
    return compileStructuredForm(schema, `${field}.json_schema.schema`);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    // The message is written for schemas of the job, whose errors end the run.
    const problem = error.message.replace(/^[^:]*: /, "").replace(/ \(field [^()]*\)$/, "");
    throw unsupported(error.place.field ?? field, problem);
  }
}
