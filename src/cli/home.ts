import { join, resolve } from "node:path";
import type { CliIo } from "./io.ts";

/**
 * The folder of models and engine packages: `SLUICE_HOME`, else `sluice` in the user's cache
 * directory (`XDG_CACHE_HOME` or `~/.cache`; on macOS `~/Library/Caches`).
 */
export function homeDirectory(
  io: Pick<CliIo, "environment" | "workingDirectory" | "process">,
): string {
  const { SLUICE_HOME, XDG_CACHE_HOME } = io.environment;
  if (SLUICE_HOME) return resolve(io.workingDirectory, SLUICE_HOME);
  if (XDG_CACHE_HOME) return join(XDG_CACHE_HOME, "sluice");
  const caches = io.process.platform === "darwin" ? "Library/Caches" : ".cache";
  return join(io.process.userDirectory, caches, "sluice");
}
