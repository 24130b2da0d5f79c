import { relative } from "node:path";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { FileRecord } from "../directory/file-record.ts";
import type { RunLocation } from "../directory/locate.ts";
import type { JobSpec } from "../job/schema.ts";
import { HashedFile, writeWhole } from "../output/hashed-file.ts";
import type { RunContext } from "../run-context.ts";
import type { ManifestTask } from "../seal/manifest.ts";
import { letterLines } from "../seal/task-files.ts";
import { BatchLines } from "./batch-lines.ts";

/**
 * The name of a job's error file beside the run directory, or null if it has none.
 *
 * @throws SluiceError `JOB_INVALID` if its path is elsewhere, or in the run directory.
 */
export function errorFileOf({ output }: JobSpec, location: RunLocation): string | null {
  if (output.errorFile === undefined) return null;
  const name = relative(location.outside, output.errorFile);
  const isInside = !relative(location.directory, output.errorFile).startsWith("..");
  if (!name.startsWith("..") && !isInside && name !== location.mergedFile) return name;
  const problem = `it must lie in ${location.outside}, where the output lies, and be another file`;
  throw new SluiceError("JOB_INVALID", problem, { field: "output.errorFile" });
}

/**
 * Writes the lines of all failed rows, in input order, from the present dead letters. The file is
 * written even if no row failed.
 */
export async function writeErrorFile(
  { storage, plan }: Pick<RunContext, "storage" | "plan">,
  target: Storage,
  name: string,
  tasks: Iterable<ManifestTask>,
): Promise<FileRecord> {
  const lines = new BatchLines(plan);
  return writeWhole(await HashedFile.open(target, name), async (file) => {
    for (const task of tasks) {
      for await (const letter of letterLines(storage, task)) await file.add(lines.failed(letter));
    }
  });
}
