import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import { nearest } from "../foundation/suggest.ts";
import { formatFor, formatNames } from "./formats/registry.ts";
import { entriesOf, isGlob, matchFiles } from "./glob.ts";
import { schemeOf } from "./storage/open.ts";

/** One input as a job names it. */
export interface InputSource {
  /** A file or a glob. */
  path: string;
  /** Default: by each file's ending. */
  format?: string;
  /** Field that identifies a row. */
  id?: string;
  /** Name of the dataset that it is, or is a part of. */
  dataset?: string;
  maxLineBytes: number;
}

/** One file to be read. */
export interface InputFile {
  /** Absolute. */
  path: string;
  bytes: number;
  /** Milliseconds since 1970: a hint that the file may have changed, never a proof. */
  modifiedMs: number;
  /** Name of its format. */
  format: string;
  /** Which of the sources named it, from 0. */
  source: number;
  /** That source's `id`. */
  id?: string;
  /** That source's `dataset`. */
  dataset?: string;
}

/** Sizes asked for at once. */
const statBatch = 64;

/**
 * The files of all sources, in the order of the sources; those of one glob sorted by path (UTF-16
 * code units). A file that two sources name is there twice.
 *
 * @param baseDirectory what relative paths start from.
 * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_FORMAT`, `INPUT_TOO_MANY_FILES`,
 *   `UNSUPPORTED` for paths that are not of this machine.
 * @example
 * await expandInputs([{ path: "data/*.jsonl", maxLineBytes: 1e6 }], "/home/me");
 */
export async function expandInputs(
  sources: readonly InputSource[],
  baseDirectory: string,
  maxFiles: number = limits.maxInputFiles,
): Promise<InputFile[]> {
  const files: InputFile[] = [];
  for (const [index, source] of sources.entries()) {
    const paths = await pathsOf(source.path, baseDirectory, maxFiles - files.length);
    for (let start = 0; start < paths.length; start += statBatch) {
      const batch = paths.slice(start, start + statBatch);
      files.push(...(await Promise.all(batch.map((path) => inputFile(path, source, index)))));
    }
  }
  return files;
}

async function pathsOf(path: string, baseDirectory: string, maxFiles: number): Promise<string[]> {
  const scheme = schemeOf(path);
  if (scheme !== undefined) {
    throw new SluiceError("UNSUPPORTED", `input of the scheme ${scheme}: in ${path}`, {
      hint: "give paths of this machine",
    });
  }
  const literal = resolve(baseDirectory, path);
  // A name such as `part[1].jsonl` is itself before it is a glob.
  const paths = isGlob(path) && !(await statusOf(literal)) ? [] : [literal];
  if (paths.length === 0) {
    for await (const found of matchFiles(path, baseDirectory)) {
      paths.push(found);
      if (paths.length > maxFiles) break;
    }
  }
  if (paths.length > maxFiles) {
    throw new SluiceError("INPUT_TOO_MANY_FILES", `${path} makes them more than allowed`);
  }
  if (paths.length === 0) throw await missing(path, literal);
  return paths.sort();
}

async function inputFile(path: string, source: InputSource, index: number): Promise<InputFile> {
  const status = await statusOf(path);
  if (!status) throw await missing(source.path, path);
  if (status.isDirectory()) throw await directoryNamed(path);
  if (!status.isFile()) throw new SluiceError("INPUT_UNREADABLE", "no plain file", { file: path });
  const format = formatFor(path, source.format).name;
  const { size: bytes, mtimeMs: modifiedMs } = status;
  const { id, dataset } = source;
  return { path, bytes, modifiedMs, format, source: index, id, dataset };
}

async function statusOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new SluiceError("INPUT_UNREADABLE", String(code), { file: path, cause });
  }
}

/** Says what is there instead: the name nearest to the one that was meant, or a few names. */
async function missing(pattern: string, literal: string): Promise<SluiceError> {
  let directory = dirname(literal);
  let name = basename(literal);
  while (isGlob(directory) || !(await statusOf(directory))) {
    name = basename(directory);
    directory = dirname(directory);
  }
  const names = (await entriesOf(directory)).map((entry) => entry.name).sort();
  const suggestion = nearest(name, names);
  if (suggestion) {
    const hint = `did you mean ${join(directory, suggestion)}?`;
    return new SluiceError("INPUT_MISSING", pattern, { hint });
  }
  const some = names.length > 5 ? [...names.slice(0, 5), "…"] : names;
  const hint = `${directory} holds ${some.length > 0 ? some.join(", ") : "nothing"}`;
  return new SluiceError("INPUT_MISSING", pattern, { hint });
}

async function directoryNamed(path: string): Promise<SluiceError> {
  const endings = (await entriesOf(path)).map((entry) => extname(entry.name));
  const known = endings.find((ending) => isKnownEnding(ending)) ?? ".jsonl";
  const hint = `name its files by a glob, as ${join(path, `*${known}`)}`;
  return new SluiceError("INPUT_UNREADABLE", "it is a directory", { file: path, hint });
}

function isKnownEnding(ending: string): boolean {
  try {
    return formatNames.includes(formatFor(`file${ending}`).name);
  } catch {
    return false;
  }
}
