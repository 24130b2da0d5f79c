import type { ErrorCode } from "../../../foundation/error-table.ts";
import { type ErrorPlace, SluiceError } from "../../../foundation/errors.ts";
import type { InputRow, Slice } from "../../row.ts";
import type { CutRule } from "../format.ts";

/** Formats whose files libraries decode: what strangers wrote decides how long that takes. */
export type ApartFormat = "parquet" | "arrow";

/** One call of a method of a format, as it crosses to the thread. */
export type Call =
  | { method: "scan"; rule: CutRule }
  | { method: "read"; slice: Slice; firstIndex: number; columns: readonly string[] | undefined }
  | { method: "columns" }
  | { method: "rowCount" };

export interface StartMessage {
  kind: "start";
  id: number;
  format: ApartFormat;
  file: string;
  /** Length of the file. */
  bytes: number;
  /** Whether the file's storage reads into memory that is there. */
  readsInto: boolean;
  maxLineBytes: number;
  call: Call;
  /** Values that the thread may give before it is told that there is room for more. */
  room: number;
}

export type ToThread =
  | StartMessage
  | { kind: "bytes"; id: number; request: number; bytes: ArrayBuffer; length: number }
  | { kind: "read-failed"; id: number; request: number; error: ErrorData }
  | { kind: "room"; id: number }
  | { kind: "stop"; id: number }
  | { kind: "ping" };

/** A request for bytes of the file; `spare` is memory that the answer may lie in. */
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
  /** `request`: the read that failed, where the error is that one's. */
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
  const error = new SluiceError(code, "", { hint, ...place });
  error.message = message;
  return error;
}

/** Rows that follow one another: texts alone, for a copy of parsed values takes longer to make. */
export interface PackedRows {
  index: number;
  line: number;
  raws: string[];
  /** What else there is of some of them, each by its place. */
  faults: { at: number; rawBase64: string | undefined; error: ErrorData }[];
}

export function packed(rows: readonly InputRow[]): PackedRows {
  const faults = rows.flatMap(({ rawBase64, error }, at) =>
    error ? [{ at, rawBase64, error: errorData(error) }] : [],
  );
  const { index, line } = rows[0]!;
  return { index, line, raws: rows.map(({ raw }) => raw), faults };
}
