import { join, resolve } from "node:path";
import type { Surroundings } from "./surroundings.ts";

/**
 * The folder of models and engine packages: `SLUICE_HOME`, else `sluice` in the user's cache
 * directory (`XDG_CACHE_HOME` or `~/.cache`; on macOS `~/Library/Caches`).
 */
export function homeDirectory({
  environment,
  workingDirectory,
  process,
}: Pick<Surroundings, "environment" | "workingDirectory" | "process">): string {
  const { SLUICE_HOME, XDG_CACHE_HOME } = environment;
  if (SLUICE_HOME) return resolve(workingDirectory, SLUICE_HOME);
  if (XDG_CACHE_HOME) return join(XDG_CACHE_HOME, "sluice");
  const caches = process.platform === "darwin" ? "Library/Caches" : ".cache";
  return join(process.userDirectory, caches, "sluice");
}
