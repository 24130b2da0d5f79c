import { SluiceError } from "../../../foundation/errors.ts";
import { contentText, type InferenceRequest } from "../../../foundation/inference.ts";
import type { Json } from "../../../foundation/json.ts";
import type { TransformersModelOptions } from "../options.ts";

/**
 * A column of a request's row.
 *
 * @returns undefined if the row lacks it or has null.
 */
export function columnOf(request: InferenceRequest, column: string): Json | undefined {
  return request.row?.[column] ?? undefined;
}

/**
 * A column with a text.
 *
 * @throws SluiceError `COLUMN_INVALID` for another value, or if the row lacks it.
 */
export function textColumnOf(request: InferenceRequest, column: string, key: string): string {
  const value = columnOf(request, column);
  if (typeof value === "string") return value;
  const found = value === undefined ? "is not there" : "is not a text";
  throw columnInvalid(`${column} ${found}`, column, key);
}

/** @param key the job's key with the column's name. */
export function columnInvalid(detail: string, column: string, key: string): SluiceError {
  const hint = `correct the row, or name another column with model.${key}`;
  return new SluiceError("COLUMN_INVALID", detail, { field: column, hint });
}

/**
 * The text of a request: its prompt, the last message of a chat, or without text the row's column.
 *
 * @throws SluiceError `COLUMN_INVALID`.
 */
export function textOf(request: InferenceRequest, textColumn: string): string {
  const { prompt, messages } = request;
  return prompt ?? lastSaid(messages) ?? textColumnOf(request, textColumn, "textColumn");
}

/**
 * The recording of a request: a path, or an address with its content (`data:…`).
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
