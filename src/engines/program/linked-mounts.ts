import { lstat, mkdir, rmdir, symlink, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import type { Bind } from "./mount-namespace.ts";

/** Shows the mounts of one program at a time at their paths. */
export interface LinkedMounts {
  /** Takes the place of what was shown before. */
  show(binds: readonly Bind[]): Promise<void>;
  close(): Promise<void>;
}

/**
 * Links as mounts, for a file system that belongs to this worker alone, as that of a container.
 *
 * @returns undefined if something stands at a path, or nothing can be created there.
 */
export async function openLinkedMounts(
  paths: readonly string[],
): Promise<LinkedMounts | undefined> {
  const isNested = paths.some((path) => paths.some((each) => path.startsWith(`${each}/`)));
  const hide = async () => {
    for (const path of paths) await clear(path);
  };
  const show = async (binds: readonly Bind[]) => {
    for (const { path, place } of binds) {
      await mkdir(dirname(path), { recursive: true });
      await clear(path);
      await symlink(place, path);
    }
  };
  try {
    if (isNested) return undefined;
    await show(paths.map((path) => ({ path, place: tmpdir() })));
    await hide();
  } catch {
    return undefined;
  }
  return { show, close: () => hide().catch(() => {}) };
}

/** Removes a link, or an empty folder, which images have where a mount belongs. */
async function clear(path: string): Promise<void> {
  const facts = await lstat(path).catch(() => undefined);
  if (facts?.isSymbolicLink()) await unlink(path);
  else if (facts) await rmdir(path);
}
