import type { Leftover, Storage } from "../../data/storage/storage.ts";
import { limits } from "../../foundation/limits.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { shallowPrefixes } from "./layout.ts";

/**
 * Leftovers of dead processes, without files that may still be written.
 *
 * @param of what the paths of objects begin with, or their paths: beside a run directory there are
 *   files of others.
 */
export async function* staleLeftovers(
  storage: Storage,
  of: string | readonly string[],
): AsyncGenerator<Leftover> {
  const found = typeof of === "string" ? storage.leftovers?.(of) : storage.leftoversOf?.(of);
  if (!found) return;
  for await (const leftover of found) {
    if (leftover.idleMs >= limits.staleLeftoverMs) yield leftover;
  }
}

/**
 * Removes drafts of earlier processes. Attempts' folders are too many to search: `sluice clean`
 * does that. Errors of the store are ignored.
 */
export async function removeStaleLeftovers(
  { storage, outside, logger }: Pick<RunContext, "storage" | "outside" | "logger">,
  plan: Plan,
): Promise<void> {
  const remove = async (store: Storage, of: string | readonly string[]) => {
    for await (const { path } of staleLeftovers(store, of)) await store.remove(path);
  };
  try {
    for (const prefix of shallowPrefixes) await remove(storage, prefix);
    await remove(outside, outsideFiles(plan));
  } catch (error) {
    logger.log("debug", `leftovers: ${(error as Error).message}`);
  }
}

/** The files of a run beside its directory, save for those by input or by row. */
export function outsideFiles({ mergedFile, errorFile }: Plan): string[] {
  return [mergedFile, errorFile].filter((name) => typeof name === "string");
}
