import type { Environment } from "../../foundation/subprocess.ts";

/** How each scheduler tells a process its place, by variables; the first that fits counts. */
const schedulers: readonly [needed: readonly string[], place: (of: Environment) => string][] = [
  // First: a Ray cluster may lie within a job of another scheduler.
  [
    ["SLUICE_RAY_ACTOR"],
    (of) => `ray ${of.SLUICE_RAY_ACTOR?.slice(0, 8)}${onNode(of.SLUICE_RAY_NODE)}`,
  ],
  [
    ["SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"],
    (of) => `slurm ${of.SLURM_ARRAY_JOB_ID}_${of.SLURM_ARRAY_TASK_ID}${onNode(of.SLURMD_NODENAME)}`,
  ],
  [["SLURM_JOB_ID"], (of) => `slurm ${of.SLURM_JOB_ID}${onNode(of.SLURMD_NODENAME)}`],
  [
    ["CE_TASK_INDEX", "CE_FLEET_NAME"],
    (of) => `code-engine ${of.CE_FLEET_NAME} ${of.CE_TASK_INDEX}`,
  ],
  [["SKYPILOT_MANAGED_JOB_ID"], (of) => `sky ${of.SKYPILOT_MANAGED_JOB_ID}`],
  [
    ["SKYPILOT_JOB_RANK", "SKYPILOT_TASK_ID"],
    (of) => `sky ${of.SKYPILOT_TASK_ID} ${of.SKYPILOT_JOB_RANK}`,
  ],
  [
    ["JOB_COMPLETION_INDEX", "HOSTNAME"],
    (of) => `kubernetes ${of.HOSTNAME} ${of.JOB_COMPLETION_INDEX}`,
  ],
];

/**
 * Where a scheduler has placed a process, with the scheduler's own id of it.
 *
 * @returns undefined if no known scheduler has started it.
 * @example
 * schedulerPlace(environment); // "slurm 123_4 on n1"
 */
export function schedulerPlace(environment: Environment): string | undefined {
  return schedulers.find(([needed]) => needed.every((name) => environment[name]))?.[1](environment);
}

const onNode = (node: string | undefined) => (node ? ` on ${node}` : "");
