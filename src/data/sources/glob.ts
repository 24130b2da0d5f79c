import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import picomatch from "picomatch";
import { SluiceError } from "../../foundation/errors.ts";
import { isAbsent, systemCode } from "../../foundation/system-errors.ts";

/** True if a path has wildcards: `*`, `?`, `[…]`, `{…}`. */
export function isGlob(path: string): boolean {
  return picomatch.scan(path).isGlob;
}

/** The folder that holds everything a path or glob can match, as written. */
export function fixedFolder(path: string): string {
  return isGlob(path) ? picomatch.scan(path).base : dirname(path);
}

/**
 * The absolute folder where a glob starts, and the rest of the glob. If a folder exists whose name
 * looks like a glob, such as `{a,b}`, the name means that folder.
 */
export async function splitGlob(
  pattern: string,
  baseDirectory: string,
): Promise<{ root: string; glob: string }> {
  const names = resolve(baseDirectory, pattern).split("/").slice(1);
  let root = "/";
  while (names.length > 1) {
    const folder = join(root, names[0]!);
    if (isGlob(names[0]!) && !(await isFolder(folder))) break;
    root = folder;
    names.shift();
  }
  return { root, glob: names.join("/") };
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

/**
 * Absolute paths of the files that a glob matches, in the order in which folders are read. A name
 * that begins with a dot is matched only by a pattern that begins with a dot.
 *
 * @param baseDirectory a relative glob starts here.
 */
export async function* matchFiles(pattern: string, baseDirectory: string): AsyncGenerator<string> {
  const { root, glob } = await splitGlob(pattern, baseDirectory);
  const isMatch = picomatch(glob);
  const withDots = /(^|\/)\./.test(glob);
  const hasAnyDepth = glob.includes("**");
  const maxDepth = hasAnyDepth ? Number.POSITIVE_INFINITY : glob.split("/").length - 1;
  const folders = [{ path: "", depth: 0 }];
  for (let folder = folders.pop(); folder; folder = folders.pop()) {
    for (const entry of await entriesOf(join(root, folder.path))) {
      const path = folder.path + entry.name;
      // Links to folders are followed only if the depth is bounded: they may form a circle.
      const isFolder =
        entry.isDirectory() || (!hasAnyDepth && (await isLinkedFolder(root, path, entry)));
      if (!isFolder) {
        if (isMatch(path) && !(hasAnyDepth && (await isLinkedFolder(root, path, entry)))) {
          yield join(root, path);
        }
      } else if (folder.depth < maxDepth && (withDots || !entry.name.startsWith("."))) {
        folders.push({ path: `${path}/`, depth: folder.depth + 1 });
      }
    }
  }
}

async function isLinkedFolder(root: string, path: string, entry: Dirent): Promise<boolean> {
  if (!entry.isSymbolicLink()) return false;
  return isFolder(join(root, path));
}

/**
 * Entries of a directory; empty if it does not exist.
 *
 * @throws SluiceError `INPUT_UNREADABLE` if it may not be read: its files would be missing in
 *   silence.
 */
export async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (cause) {
    if (isAbsent(cause)) return [];
    throw new SluiceError("INPUT_UNREADABLE", String(systemCode(cause)), {
      file: directory,
      cause,
    });
  }
}
