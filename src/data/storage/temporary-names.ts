import { randomUUID } from "node:crypto";
import { basename, dirname, join } from "node:path";

/** Names of temporary files begin like this. Lists leave them out. */
export const temporaryPrefix = ".tmp-";

export const temporaryName = /^\.tmp-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?<object>.+)$/;

/** True for a path of a file that is being written, or was left by a killed process. */
export function isTemporary(path: string): boolean {
  return temporaryName.test(basename(path));
}

/** Characters of an object's name that are part of its temporary file's name. */
export const maxNameLength = 64;

/** A temporary name that nothing else uses. Nothing depends on it, so it needs no seed. */
export function temporaryBeside(file: string): string {
  const name = basename(file).slice(0, maxNameLength);
  return join(dirname(file), `${temporaryPrefix}${randomUUID()}-${name}`);
}
