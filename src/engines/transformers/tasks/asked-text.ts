import { SluiceError } from "../../../foundation/errors.ts";
import { contentText, type InferenceRequest } from "../../../foundation/inference.ts";
import type { Json } from "../../../foundation/json.ts";
import type { TransformersModelOptions } from "../options.ts";

/**
 * A column of a request's row.
 *
 * @returns undefined where the row lacks it or has null.
 */
export function columnOf(request: InferenceRequest, column: string): Json | undefined {
  return request.row?.[column] ?? undefined;
}

/**
 * A column that holds a text.
 *
 * @throws SluiceError `COLUMN_INVALID` where it does not, and where the row lacks it.
 */
export function textColumnOf(request: InferenceRequest, column: string, key: string): string {
  const value = columnOf(request, column);
  if (typeof value === "string") return value;
  const found = value === undefined ? "is not there" : "is not a text";
  throw columnInvalid(`${column} ${found}`, column, key);
}

/** @param key of the job that names the column. */
export function columnInvalid(detail: string, column: string, key: string): SluiceError {
  const hint = `mend the row, or name another column with model.${key}`;
  return new SluiceError("COLUMN_INVALID", detail, { field: column, hint });
}

/**
 * The text that a request is about: its prompt, of a chat what was said last, or without words the
 * row's column.
 *
 * @throws SluiceError `COLUMN_INVALID`.
 */
export function textOf(request: InferenceRequest, textColumn: string): string {
  const { prompt, messages } = request;
  return prompt ?? lastSaid(messages) ?? textColumnOf(request, textColumn, "textColumn");
}

/**
 * The recording that a request is about: a path, or an address that holds it (`data:…`).
 *
 * @throws SluiceError `COLUMN_INVALID`.
 */
export function soundOf(
  request: InferenceRequest,
  { audioColumn }: Pick<TransformersModelOptions, "audioColumn">,
): string {
  const { file, prompt, messages } = request;
  const said = file ?? prompt ?? lastSaid(messages);
  return said ?? textColumnOf(request, audioColumn, "audioColumn");
}

function lastSaid(messages: InferenceRequest["messages"]): string | undefined {
  const last = messages?.at(-1);
  return last && contentText(last.content);
}
