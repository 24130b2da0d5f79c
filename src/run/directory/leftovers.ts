import type { Leftover, Storage } from "../../data/storage/storage.ts";
import { limits } from "../../foundation/limits.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { shallowPrefixes } from "./layout.ts";

/** Leftovers of dead processes below a prefix, without files that may still be written. */
export async function* staleLeftovers(storage: Storage, prefix: string): AsyncGenerator<Leftover> {
  if (!storage.leftovers) return;
  for await (const leftover of storage.leftovers(prefix)) {
    if (leftover.idleMs >= limits.staleLeftoverMs) yield leftover;
  }
}

/**
 * Removes drafts of earlier processes. Attempts' folders are too many to search: `sluice clean`
 * does that. Errors of the store are ignored.
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
