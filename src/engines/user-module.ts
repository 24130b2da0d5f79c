import { basename } from "node:path";

/**
 * What was thrown, in words, with the line of the module that it came from where it says so.
 *
 * @param module path of the module.
 * @example
 * explained(error, "/jobs/predict.ts"); // "TypeError: row.text is undefined (predict.ts:12)"
 */
export function explained(thrown: unknown, module: string): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const { name, message, stack = "" } = thrown;
  const file = basename(module);
  const at = stack.indexOf(`${file}:`);
  const line = at < 0 ? undefined : /^\d+/.exec(stack.slice(at + file.length + 1))?.[0];
  const what = name === "Error" ? message : `${name}: ${message}`;
  return line === undefined ? what : `${what} (${file}:${line})`;
}
