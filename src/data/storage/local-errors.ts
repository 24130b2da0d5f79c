import { SluiceError } from "../../foundation/errors.ts";
import { systemCode } from "../../foundation/system-errors.ts";

/** The `SluiceError` for a failure of the file system; other values unchanged. */
export function storeError(error: unknown, file: string): unknown {
  const code = systemCode(error);
  if (code === undefined) return error;
  const options = { file, cause: error };
  if (code === "ENOENT") return new SluiceError("NOT_FOUND", "", options);
  if (code === "ENOSPC" || code === "EDQUOT") return new SluiceError("STORE_FULL", code, options);
  // Node ends its message with the path, which the new error names already.
  const detail = (error as Error).message.split(" '", 1)[0]!.replace(/,$/, "");
  return new SluiceError("STORE_FAILED", detail, options);
}

/** True if the file system has no hard links, or none between these two places. */
export function isLinkUnsupported(error: unknown): boolean {
  return ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EXDEV", "EMLINK"].includes(
    systemCode(error) ?? "",
  );
}

/** Runs `action`; an error of the file system becomes a `SluiceError` that names `file`. */
export async function withStoreErrors<T>(file: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw storeError(error, file);
  }
}
