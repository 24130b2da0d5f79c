import { SluiceError } from "../../foundation/errors.ts";

/** The error of a Parquet or Arrow file that breaks its format. */
export function unreadable(
  file: string,
  detail: string,
  options: { hint?: string; cause?: unknown } = {},
): SluiceError {
  const hint = "get the file again, or leave it out";
  return new SluiceError("INPUT_UNREADABLE", detail, { file, hint, ...options });
}
