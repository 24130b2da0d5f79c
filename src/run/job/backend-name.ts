import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { JobSources } from "./load.ts";

/** How a key and a value of YAML or JSON can be written without their own letters. */
const escapes = /\\[xuU]/;

/**
 * True if nothing that a job is read from names a backend, so that it has the default one. It is
 * known so before the job is read, in a fraction of the time.
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
  // Reading the job says what is wrong with the file.
  const text = await readFile(resolve(workingDirectory, file), "utf8").catch(() => undefined);
  return text !== undefined && !escapes.test(text) && !text.includes("backend");
}
