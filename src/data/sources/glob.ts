import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import picomatch from "picomatch";
import { SluiceError } from "../../foundation/errors.ts";
import { isAbsent, systemCode } from "../storage/local-errors.ts";

/** True where a path holds wildcards: `*`, `?`, `[…]`, `{…}`. */
export function isGlob(path: string): boolean {
  return picomatch.scan(path).isGlob;
}

/** The folder in which all lies that a path or a glob means, as it is written there. */
export function fixedFolder(path: string): string {
  return isGlob(path) ? picomatch.scan(path).base : dirname(path);
}

/**
 * The folder that a glob starts from, absolute, and the rest of it. A folder whose name looks like
 * a glob, as `{a,b}`, is itself before it is a glob.
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
 * Paths of the files that a glob matches, absolute, in the order in which folders are read. Names
 * that begin with a dot are matched only where the glob says the dot.
 *
 * @param baseDirectory what a relative glob starts from.
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
      // A link to a folder is followed only where the depth is bounded: links may form a circle.
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
 * Entries of a directory; none where it is absent.
 *
 * @throws SluiceError `INPUT_UNREADABLE` where it may not be read: what is in it would be left out.
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
