import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { begunOutputsPath } from "../directory/layout.ts";
import { readLines } from "../directory/lines.ts";
import type { Plan } from "../plan/plan.ts";

/**
 * Paths of the result files that a run has made or may have made, from where they start: those that
 * are planned, and of files by row those that were begun. None where the list of them is gone: it
 * goes after them when a run is removed.
 */
export async function madeOutputs(
  storage: Pick<Storage, "open">,
  { outputs }: Pick<Plan, "outputs">,
): Promise<string[]> {
  if (!outputs) return [];
  const list = outputs.isPerRow ? begunOutputsPath : outputs.list.path;
  const paths = new Set<string>();
  try {
    for await (const line of readLines(storage, list)) paths.add(pathIn(line));
  } catch (error) {
    if (asSluiceError(error).code !== "NOT_FOUND") throw error;
  }
  paths.delete("");
  return [...paths];
}

/** A line that a kill cut off was followed by no file. */
function pathIn(line: string): string {
  try {
    return (JSON.parse(line) as { path: string }).path;
  } catch {
    return "";
  }
}
