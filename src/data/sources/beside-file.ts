import { dirname, resolve } from "node:path";
import { shownPath } from "../../foundation/shown-path.ts";
import { schemeOf } from "../storage/open.ts";

/**
 * A path that a file names, resolved against the folder of that file: absolute, or an address.
 *
 * @example
 * besideFile("s3://bucket/in/list.txt", "../a.wav"); // "s3://bucket/a.wav"
 */
export function besideFile(file: string, path: string): string {
  if (schemeOf(path) !== undefined || path.startsWith("/")) return path;
  if (schemeOf(file) === undefined) return resolve(dirname(file), path);
  // The query of a web address does not belong to the folder.
  const [, root, folder] = /^([^:]+:\/\/[^/]+)\/?(.*?)[^/]*$/s.exec(shownPath(file))!;
  return root! + resolve("/", folder!, path);
}

/**
 * True if a path lies in a folder, at any depth, judged by their names. `..` cannot lead out.
 *
 * @example
 * isBelow("s3://bucket/in/../secret.txt", "s3://bucket/in"); // false
 */
export function isBelow(path: string, folder: string): boolean {
  const above = normalized(folder).replace(/\/*$/, "/");
  return normalized(path).startsWith(above);
}

/** A whole path or address with `.` and `..` resolved. */
export function normalized(path: string): string {
  if (schemeOf(path) === undefined) return resolve(path);
  const [, root, below] = /^([^:]+:\/\/[^/]*)(.*)$/s.exec(path)!;
  return `${root!.toLowerCase()}${resolve("/", below!)}`;
}
