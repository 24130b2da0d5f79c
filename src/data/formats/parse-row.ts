import { isUtf8 } from "node:buffer";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../../foundation/json.ts";
import type { InputRow } from "../row.ts";
import { jsonFaultAt } from "./json-fault.ts";

/** Bytes that a row keeps of a record that is too long. */
export const keptPrefixBytes = 1024;

/** Decoding replaces invalid bytes by this character; a text may also contain it. */
const replacement = Buffer.from("\uFFFD");

/** The place of a record, which every row has. */
export interface RecordPlace {
  index: number;
  file: string;
  line: number;
}

/** The row of a record of JSON text. */
export function parseRow(raw: string, index: number, file: string, line: number): InputRow {
  let value: unknown;
  try {
    value = JSON.parse(raw);
  } catch {
    return { index, file, line, raw, error: jsonFault(raw, file, line) };
  }
  if (isJsonObject(value)) return { index, file, line, raw, value: value as JsonObject };
  const kind = Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;
  const error = new SluiceError("ROW_NOT_OBJECT", `it is ${kind}`, { file, line });
  return { index, file, line, raw, error };
}

/**
 * The row of a record with faulty bytes: it holds a NUL byte, or is not UTF-8, or exceeds
 * `maxLineBytes`. In the last case `isWhole` is false and `bytes` are its first bytes.
 */
export function faultyRow(
  bytes: Buffer,
  place: RecordPlace,
  isWhole: boolean,
  maxLineBytes: number,
): InputRow {
  const { file, line } = place;
  const fail = (code: ErrorCode, detail: string, raw: string): InputRow => ({
    ...place,
    raw,
    error: new SluiceError(code, detail, { file, line }),
  });
  if (!isWhole) {
    const kept = bytes
      .subarray(0, keptPrefixBytes)
      .toString()
      .replace(/\uFFFD+$/, "");
    return fail("LINE_TOO_LONG", `it exceeds ${maxLineBytes} bytes`, kept);
  }
  const nul = bytes.indexOf(0);
  const row =
    nul >= 0
      ? fail("NUL_BYTE", `byte ${nul + 1} of the row`, bytes.toString())
      : fail("UTF8_INVALID", `byte ${invalidByte(bytes) + 1} of the row`, bytes.toString());
  return isUtf8(bytes) ? row : { ...row, rawBase64: bytes.toString("base64") };
}

/** The index of the first byte that is not UTF-8. */
function invalidByte(bytes: Buffer): number {
  const text = bytes.toString();
  for (let at = text.indexOf("\uFFFD"); at >= 0; at = text.indexOf("\uFFFD", at + 1)) {
    const place = Buffer.byteLength(text.slice(0, at));
    const isOwn = bytes.subarray(place, place + 3).equals(replacement);
    if (!isOwn) return place;
  }
  return 0;
}

function jsonFault(raw: string, file: string, line: number): SluiceError {
  const at = jsonFaultAt(raw);
  const newlines = raw.slice(0, at).split("\n").length - 1;
  const found = JSON.stringify(String.fromCodePoint(raw.codePointAt(at) ?? 0));
  const what = at >= raw.length ? "it ends too early," : `unexpected ${found}`;
  const detail = `${what} at character ${at + 1} of the row`;
  return new SluiceError("JSON_INVALID", detail, { file, line: line + newlines });
}
