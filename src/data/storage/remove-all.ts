import { eachAtOnce } from "../../foundation/each-at-once.ts";
import type { Storage } from "./storage.ts";

/** Objects that are removed at once where each takes a call. */
const removalsAtOnce = 32;

/** Removes objects in any order; absent ones are fine. */
export async function removeAll(storage: Storage, paths: readonly string[]): Promise<void> {
  if (storage.removeAll) return await storage.removeAll(paths);
  await eachAtOnce(paths, removalsAtOnce, (path) => storage.remove(path));
}
