import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { begunOutputsPath } from "../directory/layout.ts";
import { readLines } from "../directory/lines.ts";
import type { Plan } from "../plan/plan.ts";

/**
 * Paths of the result files that a run has made or may have made, relative to their base: the
 * planned ones, and begun ones by row. None if their list is gone: it is removed after them.
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

/** After a line that a kill cut off, no file was made. */
function pathIn(line: string): string {
  try {
    return (JSON.parse(line) as { path: string }).path;
  } catch {
    return "";
  }
}
