import { basename, dirname, join } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import { fileBytes } from "./part-file.ts";

/** The number of a split model's file, by its name; parts count from 1. */
export interface SplitPart {
  part: number;
  parts: number;
  /** The name of any part of the same model. */
  nameOf(part: number): string;
}

/** The parts of a name such as `model-00001-of-00003.gguf`; undefined for a model of one file. */
export function splitPartOf(file: string): SplitPart | undefined {
  const name = basename(file);
  const found = /^(?<stem>.+-)(?<part>\d{5})-of-(?<parts>\d{5})(?<ending>\.gguf)$/i.exec(name);
  if (!found?.groups) return undefined;
  const { stem, part, parts, ending } = found.groups;
  if (Number(parts) <= 1) return undefined;
  return {
    part: Number(part),
    parts: Number(parts),
    nameOf: (other) => `${stem}${String(other).padStart(5, "0")}-of-${parts}${ending}`,
  };
}

/**
 * The files of a model at `path`, in order: itself, or all parts of a split one, which is named by
 * its first.
 *
 * @throws SluiceError `MODEL_UNREADABLE` for another part than the first, and for missing parts.
 */
export async function modelFiles(path: string): Promise<string[]> {
  const split = splitPartOf(path);
  if (!split) return [path];
  const { part, parts, nameOf } = split;
  if (part !== 1) {
    throw new SluiceError("MODEL_UNREADABLE", `${path} is part ${part} of ${parts}`, {
      hint: `name the first part: ${join(dirname(path), nameOf(1))}`,
    });
  }
  const files = Array.from({ length: parts }, (_, at) => join(dirname(path), nameOf(at + 1)));
  const sizes = await Promise.all(files.map(fileBytes));
  // The caller can say more about a missing named file.
  const missing = files.filter((_, at) => at > 0 && sizes[at] === undefined);
  if (sizes[0] === undefined || missing.length === 0) return files;
  const named = missing.slice(0, 3).map((file) => basename(file));
  const more = missing.length > named.length ? ` and ${missing.length - named.length} more` : "";
  throw new SluiceError("MODEL_UNREADABLE", `${path} lacks ${named.join(", ")}${more}`, {
    hint: "put all parts into one folder",
  });
}
