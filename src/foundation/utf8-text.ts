import { isUtf8 } from "node:buffer";
import type { ErrorCode } from "./error-table.ts";
import { SluiceError } from "./errors.ts";

/**
 * The text of a file, such as a job file, that must be UTF-8.
 *
 * @throws SluiceError `code` with the place `file` if the bytes are not UTF-8.
 */
export function utf8Text(bytes: Buffer, code: ErrorCode, file: string): string {
  if (isUtf8(bytes)) return bytes.toString();
  let [line, start] = [1, 0];
  for (let end = bytes.indexOf("\n"); end >= 0; end = bytes.indexOf("\n", start)) {
    if (!isUtf8(bytes.subarray(start, end))) break;
    [line, start] = [line + 1, end + 1];
  }
  const hint = "save it as UTF-8";
  throw new SluiceError(code, "it is not UTF-8 text", { file, line, hint });
}
