import { describe, expect, it } from "vitest";
import {
  attemptPaths,
  commitPath,
  coordinatorPaths,
  deadLetterPath,
  generationAttemptsPrefix,
  manifestPathOf,
  partPath,
  partWidth,
  planPathOf,
  repeatedTaskPath,
  repeatedTasksPrefix,
  retryPaths,
  taskAttemptsPrefix,
  taskOfCommit,
  tasksPathOf,
} from "../../../src/run/directory/layout.ts";

const first = { runId: "20260101T000000Z", generation: 1 };
const third = { ...first, generation: 3 };

describe("layout", () => {
  it("gives parts the digits of the last task, and five at least", () => {
    expect([0, 1, 100_000, 100_001].map(partWidth)).toEqual([5, 5, 5, 6]);
    expect(partPath(7, 5)).toBe("part-00007.jsonl");
    expect(deadLetterPath(123456, 6)).toBe("_dead-letters/part-123456.jsonl");
  });

  it("lists coordinators in the order of their numbers", () => {
    const records = [1, 9, 10, 99, 100].map((number) => coordinatorPaths(number).record);
    expect(records.toSorted()).toEqual(records);
  });

  it("names commits by task, run and generation, in small letters", () => {
    expect(commitPath(12, first)).toBe("_sluice/commits/12.20260101t000000z.json");
    expect(commitPath(12, third)).toBe("_sluice/commits/12.20260101t000000z.g3.json");
  });

  it("finds a commit's task only where run and generation are the same", () => {
    expect(taskOfCommit(commitPath(12, third), third)).toBe(12);
    expect(taskOfCommit(commitPath(12, third), first)).toBeUndefined();
    expect(taskOfCommit(commitPath(12, { ...first, runId: "other" }), first)).toBeUndefined();
    expect(taskOfCommit("_sluice/commits/x.20260101t000000z.json", first)).toBeUndefined();
    expect(taskOfCommit("_sluice/commits/012.20260101t000000z.json", first)).toBeUndefined();
  });

  it("keeps attempts of generations and of tasks apart", () => {
    expect(attemptPaths(1, third, "a").journal).toBe(
      "_sluice/attempts/20260101t000000z/g3/1/a/journal.jsonl",
    );
    const prefix = taskAttemptsPrefix(1, first);
    expect(attemptPaths(10, first, "a").part.startsWith(prefix)).toBe(false);
    expect(attemptPaths(1, first, "a").part.startsWith(prefix)).toBe(true);
    expect(repeatedTaskPath(1, first).startsWith(repeatedTasksPrefix(first))).toBe(true);
    expect(repeatedTaskPath(1, first).startsWith(repeatedTasksPrefix(third))).toBe(false);
    expect(repeatedTaskPath(1, first).startsWith(generationAttemptsPrefix(first))).toBe(false);
  });

  it("puts everything of a retry into its generation's folder", () => {
    expect(planPathOf(1)).toBe("_sluice/plan.json");
    expect(planPathOf(2)).toBe("_sluice/generations/2/plan.json");
    expect(manifestPathOf(2)).toBe("_manifest.g2.json");
    expect(tasksPathOf(2, "0123456789abcdef99")).toBe(
      "_sluice/generations/2/tasks-0123456789abcdef.jsonl",
    );
    expect(retryPaths(2, "0abc").part(3)).toBe("_sluice/generations/2/0abc/part-3.jsonl");
  });

  it("names only files of [a-z0-9.-_]", () => {
    const names = [
      commitPath(1, third),
      repeatedTaskPath(1, third),
      ...Object.values(attemptPaths(1, third, "0abc")).map((path) =>
        typeof path === "string" ? path : path(".csv.gz"),
      ),
    ];
    for (const name of names) expect(name).toMatch(/^[a-z0-9._/-]+$/);
  });
});
