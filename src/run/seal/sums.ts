import type { Storage } from "../../data/storage/storage.ts";
import { addUsage } from "../../foundation/inference.ts";
import { type AttemptCounts, addCounts, type Commit, noCounts } from "../attempt/commit.ts";
import { addPaidAnswers, noPaidAnswers } from "../bill/costs.ts";
import { knownCutRows } from "../retry/cut-rows.ts";
import { errorsOf, requestsAfter } from "../retry/seal-retry.ts";
import type { Manifest, ManifestTask } from "./manifest.ts";

/** The commits behind a seal, each map by the task of the first generation. */
export interface SealedCommits {
  first: Map<number, Commit>;
  /** By generation. */
  retries: Map<number, Map<number, Commit>>;
}

/** The sums for a manifest, from its commits and its dead letters. */
export async function sealedSums(
  storage: Storage,
  manifest: Manifest,
  { first, retries }: SealedCommits,
): Promise<AttemptCounts & { busySeconds: number }> {
  const { tasks } = manifest;
  let counts: AttemptCounts = structuredClone(noCounts);
  let busySeconds = 0;
  for (const { task } of tasks) {
    const commit = first.get(task)!;
    counts = addCounts(counts, commit);
    busySeconds += commit.busySeconds;
  }
  const { cut: _, ...sums } = counts;
  const cut = await cutAmong(storage, tasks, first);
  if (retries.size === 0) return { ...sums, ...cut, busySeconds };
  let { requests, usage } = counts;
  let { invalid } = counts;
  for (const generation of [...retries.keys()].sort((a, b) => a - b)) {
    const commits = [...retries.get(generation)!.values()];
    requests = requestsAfter(requests, commits);
    for (const commit of commits) {
      usage = addUsage(usage, commit.usage);
      invalid = addPaidAnswers(invalid ?? noPaidAnswers, commit.invalid ?? noPaidAnswers);
      busySeconds += commit.busySeconds;
    }
  }
  const failed = tasks.reduce((sum, entry) => sum + entry.failed, 0);
  const results = tasks.reduce((sum, entry) => sum + entry.results, 0);
  const filtered = tasks.reduce((sum, entry) => sum + (entry.filtered ?? 0), 0);
  const answered = counts.rows.total - failed - filtered;
  const rows = { ...counts.rows, answered, filtered, failed, results };
  const errors = await errorsOf(storage, tasks);
  return { rows, requests, usage, ...cut, ...(invalid && { invalid }), errors, busySeconds };
}

/** Rows with a cut answer, if all records of them are there. */
async function cutAmong(
  storage: Storage,
  tasks: readonly ManifestTask[],
  first: ReadonlyMap<number, Commit>,
): Promise<Pick<AttemptCounts, "cut">> {
  if (tasks.length === 0) return {};
  let sum = 0;
  for (const entry of tasks) {
    const { cut } = first.get(entry.task)!;
    const now = entry.retried ? (await knownCutRows(storage, entry))?.length : cut;
    if (cut === undefined || now === undefined) return {};
    sum += now;
  }
  return { cut: sum };
}
