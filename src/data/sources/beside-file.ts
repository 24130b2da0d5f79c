import { dirname, resolve } from "node:path";
import { shownPath } from "../../foundation/shown-path.ts";
import { schemeOf } from "../storage/open.ts";

/**
 * A path that a file names, from the folder that the file lies in: absolute, or an address.
 *
 * @example
 * besideFile("s3://bucket/in/list.txt", "../a.wav"); // "s3://bucket/a.wav"
 */
export function besideFile(file: string, path: string): string {
  if (schemeOf(path) !== undefined || path.startsWith("/")) return path;
  if (schemeOf(file) === undefined) return resolve(dirname(file), path);
  // The query of a web address is no part of the folder.
  const [, root, folder] = /^([^:]+:\/\/[^/]+)\/?(.*?)[^/]*$/s.exec(shownPath(file))!;
  return root! + resolve("/", folder!, path);
}
