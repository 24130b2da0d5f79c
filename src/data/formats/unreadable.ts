import { SluiceError } from "../../foundation/errors.ts";

/** The error of a file of a table that is not as its format should be. */
export function unreadable(
  file: string,
  detail: string,
  options: { hint?: string; cause?: unknown } = {},
): SluiceError {
  const hint = "get the file again, or leave it out";
  return new SluiceError("INPUT_UNREADABLE", detail, { file, hint, ...options });
}
