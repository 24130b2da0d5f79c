import { indexesIn } from "../../foundation/index-set.ts";
import type { Submission } from "../../run/submissions.ts";
import type { ShareState } from "../joining/scheduler.ts";

/** What is read of a job in `sky jobs queue --output json`. */
export interface ListedJob {
  job_id: number;
  job_name: string | null;
  status: string | null;
  infra?: string | null;
  failure_reason?: string | null;
  details?: string | null;
}

/**
 * The workers of a run. Jobs of one submission have one name, and numbers in the order of their
 * ranks.
 *
 * @param prefix beginning of the names of the run's jobs.
 */
export function parseWorkers(
  listed: readonly ListedJob[],
  prefix: string,
  submissions: readonly Pick<Submission, "id" | "shares">[],
): ShareState[] {
  const shares = new Map(submissions.map(({ id, shares }) => [id, shares]));
  const jobs = listed
    .filter(({ job_name }) => job_name?.startsWith(prefix))
    .sort((a, b) => a.job_id - b.job_id);
  return [...Map.groupBy(jobs, ({ job_name }) => job_name!)].flatMap(([name, all]) => {
    const known = shares.get(name);
    const own = known === undefined ? undefined : [...indexesIn(known)];
    return all.map((job, rank) => ({
      ...{ submission: name, id: `${job.job_id}` },
      share: own?.[rank] ?? rank,
      ...stateOf(job),
    }));
  });
}

function stateOf({
  status,
  infra,
  failure_reason,
  details,
}: ListedJob): Pick<ShareState, "state" | "reason" | "node"> {
  const word = (status ?? "PENDING").replace(/^ManagedJobStatus\./, "");
  const node = infra ? { node: infra } : {};
  const told = failure_reason ?? details;
  if (word === "SUCCEEDED") return { state: "successful", ...node };
  if (word === "CANCELLED") return { state: "canceled", ...node };
  // It may still write what it has.
  if (word === "RUNNING" || word === "CANCELLING" || word === "WINDING_DOWN")
    return { state: "running", ...node };
  if (word.startsWith("FAILED")) {
    return { state: "failed", ...node, reason: [word, told].filter(Boolean).join(": ") };
  }
  return { state: "pending", reason: [word, told].filter(Boolean).join(": ") };
}
