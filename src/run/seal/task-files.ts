import type { Storage } from "../../data/storage/storage.ts";
import type { ManifestTask } from "./manifest.ts";

/**
 * Where the lines of a sealed task lie: under the name that only their writer uses or, once they
 * were cleaned away, as its part. Undefined where they are in the merged file alone.
 */
export async function linesPath(
  storage: Storage,
  { source, part }: ManifestTask,
): Promise<string | undefined> {
  const isThere = source && (!part || (await storage.stat(source.path)));
  return isThere ? source.path : part?.path;
}

/** Where the dead letters of a sealed task lie, likewise; undefined where it has none. */
export async function lettersPath(
  storage: Storage,
  { letters, deadLetters }: ManifestTask,
): Promise<string | undefined> {
  if (!deadLetters) return undefined;
  const isThere = letters !== undefined && (await storage.stat(letters));
  return isThere ? letters : deadLetters.path;
}
