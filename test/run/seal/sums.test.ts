import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { type Commit, noCounts } from "../../../src/run/attempt/commit.ts";
import type { Manifest } from "../../../src/run/seal/manifest.ts";
import { sealedSums } from "../../../src/run/seal/sums.ts";

const requests = (planned: number, answered: number) => ({ planned, answered });

function commitOf(task: number, changes: Partial<Commit> = {}): Commit {
  return { ...noCounts, busySeconds: 1, task, ...changes } as Commit;
}

const byTask = (commits: readonly Commit[]) => new Map(commits.map((it) => [it.task, it]));

/** The sums of a run of two tasks with 10 requests each, of which a retry asked some again. */
async function sums(again: Partial<Commit>[], cut?: [number, number]) {
  const first = [0, 1].map((task) =>
    commitOf(task, { requests: requests(10, 8), ...(cut && { cut: cut[task]! }) }),
  );
  const retries = again.map((changes, at) => [at + 2, byTask([commitOf(0, changes)])] as const);
  const tasks = [0, 1].map((task) => ({
    task,
    rows: 10,
    results: 8,
    failed: 2,
    deadLetters: null,
  }));
  const manifest = { tasks, requests: requests(20, 16) } as unknown as Manifest;
  return sealedSums(memoryStorage(), manifest, { first: byTask(first), retries: new Map(retries) });
}

describe("the sums of a sealed run", () => {
  it("put what a retry took in the place of what its rows took before", async () => {
    const failed = { requests: requests(3, 2), replaces: requests(3, 1) };
    expect((await sums([failed])).requests).toEqual(requests(20, 17));
    const mended = { requests: requests(3, 3), replaces: requests(2, 0) };
    expect((await sums([failed, mended])).requests).toEqual(requests(21, 20));
  });

  it("of runs that an earlier version retried are those that it stated", async () => {
    const untold = { requests: requests(3, 3) };
    expect((await sums([untold])).requests).toEqual(requests(20, 19));
    expect((await sums([untold, untold])).requests).toEqual(requests(20, 20));
  });

  it("go through retries by their numbers, of which the tenth comes after the second", async () => {
    const untold = { requests: requests(0, 10) };
    const none = { requests: requests(0, 0), replaces: requests(0, 0) };
    const tenth = { requests: requests(1, 0), replaces: requests(3, 3) };
    const retries = [untold, ...Array.from({ length: 7 }, () => none), tenth];
    expect((await sums(retries)).requests).toEqual(requests(18, 17));
  });

  it("have cut answers where every commit tells of them", async () => {
    expect((await sums([], [1, 2])).cut).toBe(3);
    expect(await sums([])).not.toHaveProperty("cut");
  });
});
