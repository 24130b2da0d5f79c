import { describe, expect, it } from "vitest";
import { parseJobLines, parseQueue } from "../../../src/backends/slurm/states.ts";

/** A job as Slurm 22.05 prints it, cut to the fields that are read. */
const older = (more: object) => ({
  array_job_id: 1,
  array_task_id: 2,
  array_task_string: "",
  comment: "sluice /data/out",
  exit_code: 0,
  job_state: "RUNNING",
  nodes: "n1",
  state_reason: "None",
  ...more,
});

/** The same as Slurm 23.11 prints it. */
const number = (value: number, set = true) => ({ set, infinite: false, number: value });
const newer = (more: object) => ({
  array_job_id: number(1),
  array_task_id: number(2),
  array_task_string: "",
  comment: "sluice /data/out",
  exit_code: { status: ["SUCCESS"], return_code: number(0), signal: { id: number(0, false) } },
  job_state: ["RUNNING"],
  nodes: "n1",
  state_reason: "None",
  ...more,
});

const queue = (...jobs: object[]) => parseQueue(JSON.stringify({ jobs }));

describe("parseQueue", () => {
  it("reads a running task of both generations alike", () => {
    const task = {
      submission: "1",
      shares: [2],
      comment: "sluice /data/out",
      state: { state: "running", node: "n1" },
    };
    expect(queue(older({}), newer({}))).toEqual([task, task]);
  });

  it("reads tasks that wait together", () => {
    const [task] = queue(
      older({ array_task_id: null, array_task_string: "0-2,5%4", job_state: "PENDING", nodes: "" }),
    );
    expect(task).toMatchObject({ shares: [0, 1, 2, 5], state: { state: "pending" } });
    const waiting = { array_task_id: number(0, false), array_task_string: "3-4,9,..." };
    const [later] = queue(
      newer({ ...waiting, job_state: ["PENDING"], nodes: "", state_reason: "Priority" }),
    );
    expect(later).toMatchObject({
      shares: [3, 4, 9],
      state: { state: "pending", reason: "Priority" },
    });
  });

  it("reads how a task ended", () => {
    const ends = queue(
      older({ job_state: "FAILED", exit_code: 69 * 256, state_reason: "NonZeroExitCode" }),
      newer({ job_state: ["FAILED"], exit_code: { return_code: number(69) } }),
      older({ job_state: "FAILED", exit_code: 9 }),
      older({ job_state: "CANCELLED", exit_code: 15 }),
      newer({ job_state: ["TIMEOUT"] }),
      older({ job_state: "NODE_FAIL" }),
      older({ job_state: "COMPLETED" }),
    );
    expect(ends.map(({ state: { state, exitCode, reason } }) => [state, exitCode, reason])).toEqual(
      [
        ["failed", 69, "NonZeroExitCode"],
        ["failed", 69, undefined],
        ["failed", undefined, undefined],
        ["canceled", undefined, undefined],
        ["failed", undefined, "timeout"],
        ["failed", undefined, "node_fail"],
        ["successful", 0, undefined],
      ],
    );
  });

  it("takes no empty list for an answer if the controller did not give it", () => {
    const errors = [{ description: "Failed while looking for jobs", error_number: -1 }];
    expect(() => parseQueue(JSON.stringify({ errors, jobs: [] }))).toThrow(
      "squeue: Failed while looking for jobs",
    );
    expect(parseQueue(JSON.stringify({ errors: [], jobs: [] }))).toEqual([]);
  });

  it("passes jobs that are not arrays", () => {
    expect(queue(older({ array_job_id: 0, array_task_id: null }))).toEqual([]);
    expect(queue(newer({ array_job_id: number(0) }))).toEqual([]);
  });
});

describe("parseJobLines", () => {
  it("reads the lines of scontrol", () => {
    const line = (more: string) => `JobId=4 ArrayJobId=1 ${more} Partition=main `;
    const text = [
      line(
        "ArrayTaskId=1 JobName=j JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n2 Comment=sluice /a b  StdErr=/l StdOut=/logs/1.log",
      ),
      line("ArrayTaskId=2-4%2 JobState=PENDING Reason=Resources ExitCode=0:0 NodeList=(null)"),
      line("ArrayTaskId=0 JobState=FAILED Reason=NonZeroExitCode ExitCode=75:0 NodeList=n1"),
      "JobId=9 JobState=RUNNING",
    ].join("\n");
    expect(parseJobLines(text)).toMatchObject([
      {
        submission: "1",
        shares: [1],
        comment: "sluice /a b",
        state: { state: "running", node: "n2" },
        logs: "/logs/1.log",
      },
      { shares: [2, 3, 4], state: { state: "pending", reason: "Resources" } },
      { shares: [0], state: { state: "failed", exitCode: 75, node: "n1" } },
    ]);
  });
});
