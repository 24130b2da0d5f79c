import type { Storage } from "../data/storage/storage.ts";
import { submissionPath, submissionPrefix } from "./directory/layout.ts";
import { createOnce, readJson } from "./directory/records.ts";

/** What a scheduler was given for a run: an array of workers, one for each share. */
export interface Submission {
  /** Name of the scheduler, such as `slurm`. */
  scheduler: string;
  /** Its id of the submission, such as `123`. */
  id: string;
  takers: number;
  /** The shares that got a worker, as an index set. */
  shares: string;
  /** 1, or the number of a retry. */
  generation: number;
  coordinator: string;
  /** ISO 8601. */
  submittedAt: string;
  sent: string;
}

/** All submissions of a run, in order. */
export async function readSubmissions(storage: Storage): Promise<Submission[]> {
  const found: Submission[] = [];
  for await (const { path } of storage.list(submissionPrefix)) {
    const submission = await readJson<Submission>(storage, path);
    if (submission) found.push(submission);
  }
  return found;
}

/** Those to one scheduler, in order. */
export async function submissionsTo(storage: Storage, scheduler: string): Promise<Submission[]> {
  return (await readSubmissions(storage)).filter((it) => it.scheduler === scheduler);
}

/** Records a submission under the next free number. */
export async function recordSubmission(storage: Storage, submission: Submission): Promise<void> {
  let number = 0;
  for await (const _file of storage.list(submissionPrefix)) number++;
  for (;;) {
    number++;
    const path = submissionPath(number);
    const { won } = await createOnce(storage, path, submission, (it) => `${it.scheduler} ${it.id}`);
    if (won) return;
  }
}
