import type { Stats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { SluiceError } from "../../foundation/errors.ts";
import type { Storage } from "../storage/storage.ts";
import { entriesOf, isGlob, matchFiles, splitGlob } from "./glob.ts";
import { FolderNamed, missingInput, tooManyFiles } from "./missing.ts";
import type { LeaveOut, SourceFile, SourceStore } from "./source-store.ts";

/** Files whose sizes are requested at once. */
const statBatch = 64;

/** Files of this machine; `root` is the storage of its whole file system. */
export const localSource = (root: Storage): SourceStore => ({
  async find(path, baseDirectory, maxFiles) {
    const { paths, below } = await pathsOf(path, baseDirectory, maxFiles);
    const files: SourceFile[] = [];
    for (let start = 0; start < paths.length; start += statBatch) {
      const batch = paths.slice(start, start + statBatch);
      files.push(...(await Promise.all(batch.map((each) => sourceFile(each, path)))));
    }
    return below === undefined ? files : files.map((file) => ({ ...file, below }));
  },
  async *list(place, leaveOut) {
    const status = await statusOf(place);
    if (status?.isDirectory()) yield* filesBelow(place, leaveOut);
    else yield await sourceFile(place, place);
  },
  open: (path) => root.open(path),
});

/**
 * Files of a folder, by name, without those that are removed meanwhile. Links to folders are left
 * out: they may form a circle.
 */
async function* filesBelow(folder: string, leaveOut?: LeaveOut): AsyncGenerator<SourceFile> {
  const entries = await entriesOf(folder);
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    const status = entry.isDirectory() ? undefined : await statusOf(path);
    if (entry.isDirectory()) yield* filesBelow(path, leaveOut);
    else if (status?.isFile()) yield fileOf(path, status);
    else if (status)
      leaveOut?.(path, status.isDirectory() ? "a link to a folder" : "no plain file");
    else {
      const fault = await unreachable(path);
      if (fault && !entry.isSymbolicLink()) throw fault;
      if (fault) leaveOut?.(path, "a link that leads nowhere");
    }
  }
}

/** Why a listed name cannot be read; undefined if it is gone by now. */
async function unreachable(path: string): Promise<SluiceError | undefined> {
  const unreadable = (detail: string, hint: string) =>
    new SluiceError("INPUT_UNREADABLE", detail, { file: path, hint });
  if (path.includes("\uFFFD")) return unreadable("its name is not UTF-8", "rename the file");
  // Another file of this name may have come since.
  const isLink = (await lstat(path).catch(() => undefined))?.isSymbolicLink();
  return isLink
    ? unreadable("it is a link that leads nowhere", "remove the link, or correct it")
    : undefined;
}

/** @returns `below`: the folder where a glob starts. */
async function pathsOf(
  path: string,
  baseDirectory: string,
  maxFiles: number,
): Promise<{ paths: string[]; below?: string }> {
  const literal = resolve(baseDirectory, path);
  // If a file exists with a name like `part[1].jsonl`, the name means that file.
  if (!isGlob(path) || (await statusOf(literal))) {
    if (maxFiles < 1) throw tooManyFiles(path);
    return { paths: [literal] };
  }
  const paths: string[] = [];
  for await (const found of matchFiles(path, baseDirectory)) {
    paths.push(found);
    if (paths.length > maxFiles) break;
  }
  if (paths.length > maxFiles) throw tooManyFiles(path);
  if (paths.length === 0) throw await missing(path, literal);
  return { paths: paths.sort(), below: (await splitGlob(path, baseDirectory)).root };
}

async function sourceFile(path: string, pattern: string): Promise<SourceFile> {
  const status = await statusOf(path);
  if (!status) throw (await unreachable(path)) ?? (await missing(pattern, path));
  if (status.isDirectory()) throw new FolderNamed(path, `${path.replace(/\/$/, "")}/`);
  if (!status.isFile()) throw new SluiceError("INPUT_UNREADABLE", "no plain file", { file: path });
  return fileOf(path, status);
}

function fileOf(path: string, { size: bytes, mtimeMs: modifiedMs }: Stats): SourceFile {
  return { path, bytes, modifiedMs };
}

async function statusOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return undefined;
    throw new SluiceError("INPUT_UNREADABLE", String(code), { file: path, cause });
  }
}

/** The error of a missing file, with the nearest name or a few names that exist. */
async function missing(pattern: string, literal: string): Promise<SluiceError> {
  let directory = dirname(literal);
  let name = basename(literal);
  while (isGlob(directory) || !(await statusOf(directory))) {
    name = basename(directory);
    directory = dirname(directory);
  }
  const names = await namesIn(directory);
  return missingInput(pattern, { folder: directory, name, names, join });
}

/** Names to suggest; empty if the folder may not be read. */
async function namesIn(directory: string): Promise<string[]> {
  const entries = await entriesOf(directory).catch(() => []);
  return entries.map(({ name }) => name).sort();
}
