import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { JobSources } from "./load.ts";

/** How YAML or JSON can write a key or a value without its plain letters. */
const escapes = /\\[xuU]/;

/**
 * True if no source of the job names a backend, so that it has the default one. This is known
 * before the job is read, and much faster.
 *
 * @example
 * await hasDefaultBackend({ file: "job.yaml", environment: {}, workingDirectory: "/home/me" });
 */
export async function hasDefaultBackend(sources: JobSources): Promise<boolean> {
  const { environment, flags = {}, sets = [], workingDirectory } = sources;
  const file = sources.file ?? (environment.SLUICE_CONFIG || undefined);
  const isNamed = [flags.backend, environment.SLUICE_BACKEND].some(Boolean);
  if (isNamed || sets.some((set) => set.startsWith("backend="))) return false;
  if (file === undefined) return true;
  // Reading the job reports the file's faults.
  const text = await readFile(resolve(workingDirectory, file), "utf8").catch(() => undefined);
  return text !== undefined && !escapes.test(text) && !text.includes("backend");
}
