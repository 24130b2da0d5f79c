import { SluiceError } from "../foundation/errors.ts";
import { formatFor } from "./formats/registry.ts";
import { inList, type ListEntry, listEntries } from "./sources/list-file.ts";
import { tooManyFiles } from "./sources/missing.ts";
import type { SourceFile, SourceStore } from "./sources/source-store.ts";

/** One input as a job names it. */
export interface InputSource {
  /** A file or a glob, of this machine or an address. */
  path: string;
  /** Default: by each file's ending. */
  format?: string;
  /** True where `path` is a list of files, one a line. */
  list?: boolean;
  /** Beginnings of paths of a list, and what stands for them here. */
  prefixes?: Readonly<Record<string, string>>;
  /** Field that identifies a row. */
  id?: string;
  /** Name of the dataset that it is, or is a part of. */
  dataset?: string;
  maxLineBytes: number;
}

/** One file to be read. */
export interface InputFile extends SourceFile {
  /** Name of its format. */
  format: string;
  /** Which of the sources named it, from 0. */
  source: number;
  /** That source's `id`. */
  id?: string;
  /** That source's `dataset`. */
  dataset?: string;
  /** Where its results are to go, where a list says so: as it stands there, prefixes replaced. */
  output?: string;
}

/** Where files are looked for. */
export interface ExpandOptions {
  /** The place that a path lies in. */
  storeOf(path: string): Promise<SourceStore>;
  /** What relative paths of this machine start from. */
  baseDirectory: string;
  maxFiles: number;
}

/** Entries of a list that are looked for at once. */
const entryBatch = 64;

/**
 * The files of all sources, in the order of the sources; those of one glob sorted by path (UTF-16
 * code units), those of a list in its order. A file that two sources name is there twice.
 *
 * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`, `INPUT_FORMAT`,
 *   `INPUT_TOO_MANY_FILES`; about an entry of a list with its line.
 */
export async function expandInputs(
  sources: readonly InputSource[],
  options: ExpandOptions,
): Promise<InputFile[]> {
  const files: InputFile[] = [];
  for (const [index, source] of sources.entries()) {
    const left = { ...options, maxFiles: options.maxFiles - files.length };
    const found = await (source.list ? listed(source, left) : named(source.path, left));
    for (const file of found) files.push(inputFile(file, source, index));
  }
  return files;
}

interface FoundFile extends SourceFile {
  output?: string;
}

async function named(path: string, options: ExpandOptions): Promise<FoundFile[]> {
  const store = await options.storeOf(path);
  return await store.find(path, options.baseDirectory, options.maxFiles);
}

async function listed(source: InputSource, options: ExpandOptions): Promise<FoundFile[]> {
  const [list, ...others] = await named(source.path, options);
  if (!list || others.length > 0) {
    const hint = "give each list as an input of its own";
    throw new SluiceError("INPUT_UNREADABLE", "several lists", { file: source.path, hint });
  }
  const store = await options.storeOf(list.path);
  const reader = await store.open(list.path, { etag: list.etag });
  const files: FoundFile[] = [];
  try {
    let batch: ListEntry[] = [];
    const flush = async () => {
      const found = await Promise.all(batch.map((entry) => filesOf(entry, list.path, options)));
      for (const each of found) files.push(...each);
      if (files.length > options.maxFiles) throw tooManyFiles(list.path);
      batch = [];
    };
    for await (const entry of listEntries(list.path, reader, source.prefixes)) {
      batch.push(entry);
      if (batch.length >= entryBatch) await flush();
    }
    await flush();
  } finally {
    await reader.close();
  }
  return files;
}

async function filesOf(
  { path, line, output }: ListEntry,
  list: string,
  options: ExpandOptions,
): Promise<FoundFile[]> {
  try {
    const files = await named(path, options);
    return output === undefined ? files : files.map((file) => ({ ...file, output }));
  } catch (error) {
    throw inList(error, list, line);
  }
}

function inputFile(file: FoundFile, source: InputSource, index: number): InputFile {
  const { id, dataset } = source;
  const format = formatFor(file.path, source.format).name;
  return { ...file, format, source: index, id, dataset };
}
