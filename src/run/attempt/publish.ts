import type { Storage } from "../../data/storage/storage.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { deadLetterPath, partPath, partWidth } from "../directory/layout.ts";
import { publishedForm } from "../output/published-form.ts";
import type { RunContext } from "../run-context.ts";
import type { Commit } from "./commit.ts";

/**
 * Makes a committed task's files visible under their published names. The attempt that created the
 * commit calls it, and the seal calls it again: repeating it changes nothing. Only the first
 * generation is published by task; a retry's parts are merged at its seal.
 */
export async function publishTask(context: RunContext, commit: Commit): Promise<void> {
  const { storage, plan } = context;
  if (plan.generation !== 1) return;
  const width = partWidth(plan.tasks.count);
  const form = publishedForm(plan);
  const wanted: [from: string, to: string][] = [];
  // A merged file consists of the attempts' parts; parts beside it would hold every row twice.
  // Encoded files are published only by the seal, which knows all columns.
  if (form.isParts && form.isLines) wanted.push([commit.part.path, partPath(commit.task, width)]);
  if (commit.deadLetters) {
    wanted.push([commit.deadLetters.path, deadLetterPath(commit.task, width)]);
  }
  for (const [from, to] of wanted) {
    await unlessCleaned(storage, to, () => storage.publish(from, to));
  }
}

/** Publishes a file; after `sluice clean`, one has only its published name. */
export async function unlessCleaned(
  target: Storage,
  path: string,
  publish: () => Promise<unknown>,
): Promise<void> {
  try {
    await publish();
  } catch (error) {
    const isPublished = asSluiceError(error).code === "NOT_FOUND" && (await target.stat(path));
    if (!isPublished) throw error;
  }
}
