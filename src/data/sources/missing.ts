import { SluiceError } from "../../foundation/errors.ts";
import { nearest } from "../../foundation/suggest.ts";

/** What is there where a file was looked for. */
interface Neighbours {
  folder: string;
  /** The name that is not in it. */
  name: string;
  /** Names that are, sorted. */
  names: readonly string[];
  join(folder: string, name: string): string;
}

/** Says what is there instead: the name nearest to the one that was meant, or a few names. */
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

/** A path or glob by which a job would have more files than are allowed. */
export function tooManyFiles(pattern: string): SluiceError {
  return new SluiceError("INPUT_TOO_MANY_FILES", `${pattern} makes them more than allowed`);
}

/** A path names a folder where a file was meant. */
export class FolderNamed extends SluiceError {
  /** As files below it are named, with its slash. */
  readonly folder: string;

  constructor(path: string, folder: string) {
    const hint = `name its files by a glob, as ${folder}*.jsonl`;
    super("INPUT_UNREADABLE", "it is a folder", { file: path, hint });
    this.folder = folder;
  }
}
