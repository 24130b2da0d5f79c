import { asSluiceError } from "../../foundation/errors.ts";
import { attemptPaths } from "../directory/layout.ts";
import { publishedForm } from "../output/published-form.ts";
import type { RunContext } from "../run-context.ts";

/**
 * Removes the files of an attempt whose task another one committed. Only after that one's id was
 * read from the commit: neither an error nor "it exists" tells who won.
 */
export async function removeLostFiles(
  { storage, plan, logger }: RunContext,
  task: number,
  attempt: string,
): Promise<void> {
  const { encoded, ...paths } = attemptPaths(task, plan, attempt);
  const { part, deadLetters, ids, cutRows, columns, lineCounts } = paths;
  const { ending, isLines } = publishedForm(plan);
  const made = isLines ? [] : [encoded(ending), columns];
  for (const path of [part, deadLetters, ids, cutRows, lineCounts, ...made]) {
    await storage.remove(path).catch((error: unknown) => {
      logger.log("debug", asSluiceError(error).message);
    });
  }
}
