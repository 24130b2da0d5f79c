import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";

/** What exists in the folder of a missing file. */
interface Neighbours {
  folder: string;
  /** The name that is missing. */
  name: string;
  /** The names that exist, sorted. */
  names: readonly string[];
  join(folder: string, name: string): string;
}

/** The error of a missing file, with the nearest name or a few names that exist. */
export function missingInput(
  pattern: string,
  { folder, name, names, join }: Neighbours,
): SluiceError {
  const suggestion = nearest(name, names);
  if (suggestion) {
    const hint = `did you mean ${join(folder, suggestion)}?`;
    return new SluiceError("INPUT_MISSING", pattern, { hint });
  }
  const some = names.length > 5 ? [...names.slice(0, 5), "…"] : names;
  const hint = `${folder} holds ${some.length > 0 ? some.join(", ") : "nothing"}`;
  return new SluiceError("INPUT_MISSING", pattern, { hint });
}

/** The error of a path or glob that would give a job too many files. */
export function tooManyFiles(pattern: string): SluiceError {
  return new SluiceError("INPUT_TOO_MANY_FILES", `${pattern} makes them more than allowed`);
}

/** A path names a folder, but a file was expected. */
export class FolderNamed extends SluiceError {
  /** The beginning of the paths of its files, with a slash. */
  readonly folder: string;

  constructor(path: string, folder: string) {
    const hint = `name its files by a glob, as ${folder}*.jsonl`;
    super("INPUT_UNREADABLE", "it is a folder", { file: path, hint });
    this.folder = folder;
  }
}
