import { homedir } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SluiceError } from "../../foundation/errors.ts";

/** True for a model's name that is a file of this machine. */
export function isModelPath(name: string): boolean {
  const isAddress = /^[A-Za-z][A-Za-z0-9+.-]+:/.test(name);
  return /^(\.{0,2}\/|~\/)/.test(name) || (name.endsWith(".gguf") && !isAddress);
}

/**
 * The path of a model's name that begins with `file:` or `~/`; undefined for any other name.
 * @throws SluiceError `MODEL_UNREADABLE`.
 */
export function pathOfName(name: string, workingDirectory: string): string | undefined {
  if (name.startsWith("~/")) return resolve(homedir(), name.slice(2));
  if (!name.startsWith("file:")) return undefined;
  if (!name.startsWith("file://")) return resolve(workingDirectory, name.slice("file:".length));
  try {
    return fileURLToPath(name);
  } catch (cause) {
    throw new SluiceError("MODEL_UNREADABLE", `${name} is not a file address`, { cause });
  }
}

/**
 * The options of a model that is a file or folder, with its name made absolute if it is a path:
 * `models/chat` is one too, because such engines know no other names with a slash.
 */
export function withAbsoluteFile<Options extends { name: string }>(
  options: Options,
  absolute: (text: string, ...path: string[]) => string,
): Options {
  const { name } = options;
  const path = /^file:(?!\/\/)/.test(name) ? name.slice("file:".length) : name;
  const isAddress = /^[A-Za-z][A-Za-z0-9+.-]+:/.test(path);
  const isFile = isModelPath(path) || (!isAddress && /[\\/]/.test(path));
  return { ...options, name: isFile ? absolute(path, "model", "name") : name };
}

/** The options of a model, with its name made absolute if it is a path. */
export function withAbsoluteName<Options extends { name: string }>(
  options: Options,
  absolute: (text: string, ...path: string[]) => string,
): Options {
  const { name } = options;
  return { ...options, name: isModelPath(name) ? absolute(name, "model", "name") : name };
}
