import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import type { SluiceError } from "../foundation/errors.ts";
import { nearest } from "../foundation/suggest.ts";

/** The exports of a user's module. */
export type ModuleExports = Record<string, unknown>;

/** Makes the error for an unusable module at a path. */
type Unusable = (path: string, problem: string, cause?: unknown) => SluiceError;

/**
 * Loads a user's module.
 * @throws the error of `unusable`.
 */
export async function importedModule(path: string, unusable: Unusable): Promise<ModuleExports> {
  try {
    return (await import(pathToFileURL(path).href)) as ModuleExports;
  } catch (thrown) {
    throw unusable(path, `it does not load: ${explained(thrown, path)}`, thrown);
  }
}

/**
 * The export that a job names.
 *
 * @param key the job's key with its name.
 * @throws the error of `unusable`, with the most similar name.
 */
export function namedExport(
  exports: ModuleExports,
  name: string,
  { path, key, unusable }: { path: string; key: string; unusable: Unusable },
): unknown {
  if (exports[name] !== undefined) return exports[name];
  const names = Object.keys(exports);
  const meant = nearest(name, names);
  const instead =
    meant === undefined ? `it exports ${names.join(", ") || "nothing"}` : `did you mean ${meant}?`;
  throw unusable(path, `it has no export ${name} (${key}); ${instead}`);
}

/** True for a class. */
export function isClass(value: unknown): boolean {
  return typeof value === "function" && Function.prototype.toString.call(value).startsWith("class");
}

/**
 * A thrown value in words, with the line of the module if it is known.
 *
 * @param module path of the module.
 * @example
 * explained(error, "/jobs/predict.ts"); // "TypeError: row.text is undefined (predict.ts:12)"
 */
export function explained(thrown: unknown, module: string): string {
  if (typeof thrown === "string") return thrown;
  if (!(thrown instanceof Error)) return inspect(thrown, { breakLength: Infinity });
  const { name, message, stack = "" } = thrown;
  const file = basename(module);
  const at = stack.indexOf(`${file}:`);
  const line = at < 0 ? undefined : /^\d+/.exec(stack.slice(at + file.length + 1))?.[0];
  const what = name === "Error" ? message : `${name}: ${message}`;
  return line === undefined ? what : `${what} (${file}:${line})`;
}
