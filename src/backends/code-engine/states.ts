import type { ShareState } from "../joining/scheduler.ts";

/** What is read of a fleet in `fleet list --output json`. */
export interface ListedFleet {
  id: string;
  name: string;
}

/** What is read of a task in `fleet task list --output json`. */
export interface ListedTask {
  index?: string | number;
  status?: string;
  /** Such as `exit_0`; releases before 2026 have the number. */
  result_code?: string | number | null;
  worker_name?: string | null;
}

/** Both spellings of success occur. A failed try is pending again. */
const words: Readonly<Record<string, ShareState["state"]>> = {
  pending: "pending",
  running: "running",
  canceling: "running",
  succeeded: "successful",
  successful: "successful",
  failed: "failed",
  canceled: "canceled",
};

/** @param submission name of the fleet. */
export function stateOf(submission: string, task: ListedTask): ShareState {
  // Such as 4, or 000-00000-4 in older releases.
  const share = Number(
    String(task.index ?? "0")
      .split("-")
      .at(-1),
  );
  const state = words[(task.status ?? "").toLowerCase()] ?? "pending";
  const code = /(\d+)$/.exec(String(task.result_code ?? ""))?.[1];
  // A task that waits again after a failed try has the code of that one.
  const hasEnded = state === "successful" || state === "failed";
  return {
    ...{ submission, share, id: `${submission} ${share}`, state },
    ...(task.worker_name && { node: task.worker_name }),
    ...(code !== undefined && hasEnded && { exitCode: Number(code) }),
  };
}
