import { SluiceError } from "../foundation/errors.ts";
import { assertForm, formatByEnding, formatFor } from "./formats/registry.ts";
import type { FileForm } from "./row.ts";
import { inList, type ListEntry, listEntries } from "./sources/list-file.ts";
import { FolderNamed, tooManyFiles } from "./sources/missing.ts";
import type { SourceFile, SourceStore } from "./sources/source-store.ts";

/** One input of a job. */
export interface InputSource extends FileForm {
  /** A file, a glob or a folder: a path of this machine or an address. */
  path: string;
  /** Default: decided by each file's ending. */
  format?: string;
  /** True if `path` is a list of files, one a line. */
  list?: boolean;
  /** Beginnings of paths in a list, and what replaces each of them here. */
  prefixes?: Readonly<Record<string, string>>;
  /** Field that identifies a row. */
  id?: string;
  /** Name of the dataset that this input belongs to. */
  dataset?: string;
  maxLineBytes: number;
}

/** One file to read. */
export interface InputFile extends SourceFile {
  /** Name of its format. */
  format: string;
  /** Index of the source that named it, from 0. */
  source: number;
  /** The `id` of that source. */
  id?: string;
  /** The `dataset` of that source. */
  dataset?: string;
  /** Only on the first file of a folder: how many files of unknown formats the folder holds. */
  leftOut?: number;
  /** How the file is written, if that source says so. */
  form?: FileForm;
  /** Where its results go, if a list says so: the list's text with its prefix replaced. */
  output?: string;
}

/** Where to look for files. */
export interface ExpandOptions {
  storeOf(path: string): Promise<SourceStore>;
  /** Relative paths of this machine start here. */
  baseDirectory: string;
  maxFiles: number;
  /** Whether a file is a result of a run: those of a folder do not count in its format. */
  isMade?: ((file: SourceFile) => Promise<boolean>) | undefined;
}

/** Entries of a list that are looked up at once. */
const entryBatch = 64;

/**
 * The files of all sources, in the order of the sources. Files of a glob are sorted by path (UTF-16
 * code units); files of a list keep its order. A file that two sources name comes twice.
 *
 * @throws SluiceError `INPUT_MISSING`, `INPUT_UNREADABLE`, `INPUT_UNREACHABLE`, `INPUT_FORMAT`,
 *   `INPUT_TOO_MANY_FILES`; for an entry of a list, with its line.
 */
export async function expandInputs(
  sources: readonly InputSource[],
  options: ExpandOptions,
): Promise<InputFile[]> {
  const files: InputFile[] = [];
  for (const [index, source] of sources.entries()) {
    const left = { ...options, maxFiles: options.maxFiles - files.length };
    const found = await (source.list ? listed(source, left) : named(source.path, source, left));
    for (const file of found) files.push(inputFile(file, source, index));
  }
  return files;
}

interface FoundFile extends SourceFile {
  output?: string;
  leftOut?: number;
}

async function named(
  path: string,
  { format }: InputSource,
  options: ExpandOptions,
): Promise<FoundFile[]> {
  const store = await options.storeOf(path);
  try {
    return await store.find(path, options.baseDirectory, options.maxFiles);
  } catch (error) {
    if (!(error instanceof FolderNamed) || store.list === undefined) throw error;
    const listing = store.list(error.folder, (file, what) => {
      // Links to folders are not followed, as by a glob.
      const isFolder = what === "a link to a folder";
      if (isFolder || isHidden(file, error.folder) || !isKnown(file, format)) return;
      const hint = "remove it, or name the other files by a glob";
      throw new SluiceError("INPUT_UNREADABLE", what, { file, hint });
    });
    return await ofFolder(error.folder, listing, format, options);
  }
}

/** The files below a folder, which must share one format. Files of unknown formats are left out. */
async function ofFolder(
  folder: string,
  listing: AsyncIterable<SourceFile>,
  format: string | undefined,
  { maxFiles, isMade }: ExpandOptions,
): Promise<FoundFile[]> {
  const files: FoundFile[] = [];
  let leftOut = 0;
  for await (const file of listing) {
    if (isHidden(file.path, folder) || file.path.endsWith("/")) continue;
    if (isKnown(file.path, format))
      files.push({ ...file, below: folder.replace(/(?<=.)\/+$/, "") });
    else leftOut++;
    if (files.length > maxFiles) throw tooManyFiles(folder);
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  const [first] = files;
  if (first === undefined) {
    const hint = "name its files by a glob, and their format in input.format";
    throw new SluiceError("INPUT_MISSING", `no file of a known format in ${folder}`, { hint });
  }
  if (format === undefined) await assertOneFormat(folder, files, isMade);
  return leftOut === 0 ? files : [{ ...first, leftOut }, ...files.slice(1)];
}

const isHidden = (path: string, folder: string) => /(^|\/)[._]/.test(path.slice(folder.length));

const isKnown = (path: string, format: string | undefined) =>
  format !== undefined || formatByEnding(path) !== undefined;

async function assertOneFormat(
  folder: string,
  files: readonly FoundFile[],
  isMade?: ExpandOptions["isMade"],
): Promise<void> {
  const byFormat = Map.groupBy(files, ({ path }) => formatByEnding(path)!);
  if (byFormat.size < 2) return;
  if (isMade) {
    const given: FoundFile[] = [];
    for (const file of files) if (!(await isMade(file))) given.push(file);
    return await assertOneFormat(folder, given);
  }
  const kinds = [...byFormat].map(([name, [first, ...more]]) => {
    const path = first!.path.slice(folder.length);
    return `${name} (${more.length === 0 ? path : `${path} and ${more.length} more`})`;
  });
  const some = byFormat.values().next().value![0]!.path;
  const hint = `name one kind by a glob, as ${folder}**/*${some.slice(some.lastIndexOf("."))}`;
  const detail = `the folder holds several: ${kinds.join(", ")}`;
  throw new SluiceError("INPUT_FORMAT", detail, { file: folder, hint });
}

async function listed(source: InputSource, options: ExpandOptions): Promise<FoundFile[]> {
  const lists = await options.storeOf(source.path);
  const { baseDirectory, maxFiles } = options;
  const [list, ...others] = await lists.find(source.path, baseDirectory, maxFiles);
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
      const found = await Promise.all(
        batch.map((entry) => filesOf(entry, source, list.path, options)),
      );
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
  source: InputSource,
  list: string,
  options: ExpandOptions,
): Promise<FoundFile[]> {
  try {
    const files = await named(path, source, options);
    return output === undefined ? files : files.map((file) => ({ ...file, output }));
  } catch (error) {
    throw inList(error, list, line);
  }
}

function inputFile(file: FoundFile, source: InputSource, index: number): InputFile {
  const { id, dataset, encoding, delimiter, records } = source;
  const format = formatFor(file.path, source.format);
  const form = {
    ...(encoding !== undefined && !/^utf-?8$/i.test(encoding) && { encoding }),
    ...(delimiter !== undefined && { delimiter }),
    ...(records !== undefined && { records }),
  };
  const isPlain = Object.keys(form).length === 0;
  if (!isPlain) assertForm(file.path, format, form);
  const name = format.name;
  return { ...file, format: name, source: index, id, dataset, ...(!isPlain && { form }) };
}
