import picomatch from "picomatch";
import type { SluiceError } from "../../foundation/errors.ts";
import { isGlob } from "./glob.ts";
import { FolderNamed, missingInput, tooManyFiles } from "./missing.ts";
import type { SourceFile } from "./source-store.ts";

/** A place whose files are listed by name prefix. */
export interface Listing {
  /** The address above all names, with a slash at the end: `s3://bucket/`. */
  root: string;
  /**
   * Files whose names begin with `prefix`, in any order. Each `path` is relative to the root. If
   * `isDeep` is false, a folder with a slash may stand for the files in it.
   */
  list(prefix: string, isDeep: boolean): AsyncIterable<SourceFile>;
}

/** Names to look at for one to suggest. */
const maxNeighbours = 1000;

/**
 * The files of a listing that a name or glob below its root matches, sorted by path.
 *
 * @throws SluiceError `INPUT_MISSING` with the nearest name, `INPUT_UNREADABLE` for a folder,
 *   `INPUT_TOO_MANY_FILES`.
 *   `INPUT_TOO_MANY_FILES`.
 */
export async function findListed(
  pattern: string,
  listing: Listing,
  maxFiles: number,
): Promise<SourceFile[]> {
  const found = isGlob(pattern)
    ? await matching(pattern, listing, maxFiles)
    : await named(pattern, listing);
  if (found.length === 0) throw await missing(pattern, listing);
  const below = isGlob(pattern) && {
    below: (listing.root + prefixOf(pattern)).replace(/\/$/, ""),
  };
  const files = found.map((file) => ({ ...file, ...below, path: listing.root + file.path }));
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function matching(
  pattern: string,
  listing: Listing,
  maxFiles: number,
): Promise<SourceFile[]> {
  const isMatch = picomatch(pattern, { dot: /(^|\/)\./.test(pattern) });
  const found: SourceFile[] = [];
  for await (const file of listing.list(prefixOf(pattern), true)) {
    // If a file exists with a name like `part[1].jsonl`, the name means that file.
    if (file.path === pattern) return [file];
    // A name that ends with a slash is a folder.
    if (file.path.endsWith("/") || !isMatch(file.path)) continue;
    found.push(file);
    if (found.length > maxFiles) throw tooManyFiles(listing.root + pattern);
  }
  return found;
}

/** The folder, with a slash, that holds everything a glob can match. */
function prefixOf(pattern: string): string {
  const { base } = picomatch.scan(pattern);
  return base === "" ? "" : `${base}/`;
}

async function named(name: string, listing: Listing): Promise<SourceFile[]> {
  let isFolder = name === "" || name.endsWith("/");
  if (!isFolder) {
    for await (const file of listing.list(name, false)) {
      if (file.path === name) return [file];
      isFolder ||= file.path.startsWith(`${name}/`);
    }
  }
  if (!isFolder) return [];
  const folder = listing.root + name.replace(/\/*$/, name === "" ? "" : "/");
  throw new FolderNamed(listing.root + name, folder);
}

async function missing(pattern: string, listing: Listing): Promise<SluiceError> {
  const fixed = isGlob(pattern) ? prefixOf(pattern) : pattern;
  let folder = folderOf(fixed);
  let names = await namesIn(folder, listing);
  while (names.length === 0 && folder !== "") {
    folder = folderOf(folder.slice(0, -1));
    names = await namesIn(folder, listing);
  }
  return missingInput(listing.root + pattern, {
    folder: listing.root + folder,
    name: pattern.slice(folder.length).split("/")[0]!,
    names,
    join: (place, name) => place + name,
  });
}

/** The folder of a name, with a slash; empty at the top. */
function folderOf(name: string): string {
  return name.slice(0, name.lastIndexOf("/") + 1);
}

async function namesIn(folder: string, listing: Listing): Promise<string[]> {
  const names = new Set<string>();
  let seen = 0;
  for await (const { path } of listing.list(folder, false)) {
    names.add(path.slice(folder.length).split("/")[0]!);
    if (++seen >= maxNeighbours) break;
  }
  return [...names].sort();
}
