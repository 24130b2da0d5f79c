import { asSluiceError } from "../../foundation/errors.ts";
import { repeatedTaskPath, successPath } from "../directory/layout.ts";
import type { RunContext } from "../run-context.ts";
import { type Commit, createCommit } from "./commit.ts";
import { proposeCommit } from "./proposed-commits.ts";
import { publishTask } from "./publish.ts";

/** How an attempt ended: its own commit stands, or that of another attempt. */
export interface AttemptEnd {
  outcome: "committed" | "already-committed";
  commit: Commit;
}

/**
 * Creates an attempt's commit and publishes its files, or removes them if another commit stands.
 */
export async function endByCommit(context: RunContext, commit: Commit): Promise<AttemptEnd> {
  const { storage, plan } = context;
  if (storage.createsOnce === false) {
    await proposeCommit(storage, plan, commit);
    return { outcome: "committed", commit };
  }
  const { won, record: standing } = await createCommit(storage, plan, commit);
  if (!won) {
    await removeLostFiles(context, commit);
    return { outcome: "already-committed", commit: standing };
  }
  // A sealed run is published, and a retry may have changed its parts since this commit.
  if (!(await storage.stat(successPath))) await publishTask(context, standing);
  return { outcome: "committed", commit: standing };
}

/**
 * Removes the files of an attempt whose task was committed by another one. The commit must have
 * been read before: neither an error nor "it exists" says whose commit stands.
 *
 * @param lost the commit that was not created.
 */
async function removeLostFiles({ storage, logger }: RunContext, lost: Commit): Promise<void> {
  const { part, published, columns, lineCounts, deadLetters, rowHashes, ids, cutRows } = lost;
  const files = [part, published, columns, lineCounts, deadLetters, rowHashes, ids, cutRows];
  for (const file of files) {
    if (!file) continue;
    await storage.remove(file.path).catch((error: unknown) => {
      logger.log("debug", asSluiceError(error).message);
    });
  }
}

/**
 * True if the journal of an ended attempt may still be read: for the bill, if other attempts worked
 * on the task; because the job keeps journals; or because the commit is only proposed.
 */
export async function isJournalNeeded(
  { storage, plan }: RunContext,
  { outcome, commit }: AttemptEnd,
): Promise<boolean> {
  const isAlone = outcome === "committed" && commit.earlierAttempts === 0;
  if (!isAlone || plan.job.keepJournals || storage.createsOnce === false) return true;
  // An attempt that began beside this one noted that before it looked for a commit and found none.
  const noted = storage.stat(repeatedTaskPath(commit.task, plan));
  return await noted.then(Boolean, () => true);
}
