import type { Leftover, Storage } from "../../data/storage/storage.ts";
import { limits } from "../../foundation/limits.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { shallowPrefixes } from "./layout.ts";

/** What dead processes left below a prefix; what somebody may still be writing is not among it. */
export async function* staleLeftovers(storage: Storage, prefix: string): AsyncGenerator<Leftover> {
  if (!storage.leftovers) return;
  for await (const leftover of storage.leftovers(prefix)) {
    if (leftover.idleMs >= limits.staleLeftoverMs) yield leftover;
  }
}

/**
 * Removes what earlier processes left of files that they were writing. Attempts' folders are not
 * searched, for their number: `sluice clean` does that. A store that refuses stops nothing.
 */
export async function removeStaleLeftovers(
  { storage, outside, logger }: Pick<RunContext, "storage" | "outside" | "logger">,
  { mergedFile, errorFile }: Pick<Plan, "mergedFile" | "errorFile">,
): Promise<void> {
  const places: [Storage, string][] = shallowPrefixes.map((prefix) => [storage, prefix]);
  for (const name of [mergedFile, errorFile]) if (name) places.push([outside, name]);
  try {
    for (const [store, prefix] of places) {
      for await (const { path } of staleLeftovers(store, prefix)) await store.remove(path);
    }
  } catch (error) {
    logger.log("debug", `leftovers: ${(error as Error).message}`);
  }
}
