/** The system's name of a failure (`ENOENT`), or undefined for any other thrown value. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("errno" in error)) return undefined;
  return String(error.code);
}

/** True if a file of that name does not exist. */
export function isAbsent(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "");
}

/**
 * The result of a call about a file, or undefined if there is no file of that name.
 *
 * @example
 * await ifThere(readFile("missing.txt", "utf8")); // undefined
 */
export async function ifThere<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
