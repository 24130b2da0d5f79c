import { expect, it } from "vitest";
import { schedulerPlace } from "../../../src/run/coordinate/scheduler-place.ts";

it("names the place of a process by the variables of its scheduler", () => {
  const places: [Record<string, string>, string | undefined][] = [
    [{}, undefined],
    [{ HOSTNAME: "laptop" }, undefined],
    [
      {
        SLURM_JOB_ID: "5",
        SLURM_ARRAY_JOB_ID: "3",
        SLURM_ARRAY_TASK_ID: "0",
        SLURMD_NODENAME: "n1",
      },
      "slurm 3_0 on n1",
    ],
    [{ SLURM_JOB_ID: "5" }, "slurm 5"],
    [{ JOB_COMPLETION_INDEX: "4", HOSTNAME: "out-4-x7" }, "kubernetes out-4-x7 4"],
    [{ CE_TASK_INDEX: "7", CE_FLEET_NAME: "night" }, "code-engine night 7"],
    [{ SKYPILOT_MANAGED_JOB_ID: "7", SKYPILOT_JOB_RANK: "2", SKYPILOT_TASK_ID: "sky-1" }, "sky 7"],
    [{ SKYPILOT_JOB_RANK: "2", SKYPILOT_TASK_ID: "sky-1" }, "sky sky-1 2"],
  ];
  for (const [environment, place] of places) expect(schedulerPlace(environment)).toBe(place);
});
