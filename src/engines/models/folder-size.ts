import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../foundation/clock.ts";
import { limits } from "../../foundation/limits.ts";
import { ifThere } from "../../foundation/system-errors.ts";

/** Bytes of all files in a folder, at any depth; 0 if there is no folder. */
export async function folderBytes(directory: string): Promise<number> {
  let bytes = 0;
  const entries = await ifThere(readdir(directory, { recursive: true, withFileTypes: true }));
  for (const entry of entries ?? []) {
    // Where a child program fills the folder, files come and go.
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) bytes += (await ifThere(stat(path)))?.size ?? 0;
  }
  return bytes;
}

/**
 * Calls back with the size of a folder that another program fills, every
 * `limits.progressIntervalMs` until the returned function is called: the progress of programs that
 * report none.
 */
export function watchGrowth(
  clock: Clock,
  directory: string,
  onBytes: (bytes: number) => void,
): () => void {
  let stopped = false;
  let cancel = () => {};
  const look = async () => {
    const bytes = await folderBytes(directory).catch(() => undefined);
    if (stopped) return;
    if (bytes !== undefined) onBytes(bytes);
    cancel = clock.schedule(limits.progressIntervalMs, () => void look());
  };
  void look();
  return () => {
    stopped = true;
    cancel();
  };
}
