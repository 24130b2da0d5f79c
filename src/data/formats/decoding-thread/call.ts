import type { ErrorCode } from "../../../foundation/error-table.ts";
import { type ErrorPlace, type SluiceError, wordedError } from "../../../foundation/errors.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { CutRule } from "../format.ts";

/** Formats decoded by libraries, where a file's content decides how long decoding takes. */
export type ThreadFormat = "parquet" | "arrow";

/** A call of a format's method, as it is sent to the thread. */
export type Call =
  | { method: "scan"; rule: CutRule }
  | { method: "read"; slice: Slice; firstIndex: number; columns: readonly string[] | undefined }
  | { method: "columns" }
  | { method: "rowCount" };

export interface StartMessage {
  kind: "start";
  id: number;
  format: ThreadFormat;
  file: string;
  /** Length of the file. */
  bytes: number;
  /** Whether the file's storage can read into existing memory. */
  readsInto: boolean;
  maxLineBytes: number;
  call: Call;
  /** Values that the thread may send before it hears that there is room for more. */
  room: number;
}

export type ToThread =
  | StartMessage
  | { kind: "bytes"; id: number; request: number; bytes: ArrayBuffer; length: number }
  | { kind: "read-failed"; id: number; request: number; error: ErrorData }
  | { kind: "room"; id: number }
  | { kind: "stop"; id: number }
  | { kind: "ping" };

/** A request for bytes of the file. The response may use the memory `spare`. */
export interface ReadMessage {
  kind: "read";
  id: number;
  request: number;
  offset: number;
  length: number;
  spare?: ArrayBuffer | undefined;
}

export type FromThread =
  | ReadMessage
  | { kind: "value"; id: number; value: unknown }
  | { kind: "end"; id: number }
  /** `request`: the read that caused the error, if one did. */
  | { kind: "error"; id: number; error: ErrorData; request?: number | undefined }
  | { kind: "pong" };

/** A `SluiceError` as data. */
export interface ErrorData {
  code: ErrorCode;
  message: string;
  hint: string;
  place: ErrorPlace;
}

export function errorData({ code, message, hint, place }: SluiceError): ErrorData {
  return { code, message, hint, place };
}

export function errorOfData({ code, message, hint, place }: ErrorData): SluiceError {
  return wordedError(code, message, { hint, ...place });
}

/** Consecutive rows as texts: copying parsed values would take longer than parsing. */
export interface PackedRows {
  index: number;
  line: number;
  raws: string[];
  /** What some of the rows have besides their text; `at` is the row's place, from 0. */
  faults: { at: number; rawBase64: string | undefined; error: ErrorData }[];
}

export function packed(rows: readonly InputRow[]): PackedRows {
  const faults = rows.flatMap(({ rawBase64, error }, at) =>
    error ? [{ at, rawBase64, error: errorData(error) }] : [],
  );
  const { index, line } = rows[0]!;
  return { index, line, raws: rows.map(({ raw }) => raw), faults };
}
