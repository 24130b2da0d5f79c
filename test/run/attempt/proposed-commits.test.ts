import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { ProposedCommits } from "../../../src/run/attempt/proposed-commits.ts";
import type { Coordinator } from "../../../src/run/coordinate/coordinator.ts";
import { attemptPrefix, commitPath } from "../../../src/run/directory/layout.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { changedStorage, errorOf, plannedRun, rowsOf, withContext } from "../run-fixture.ts";
import { answer, openAttempt } from "./open-attempt.ts";

const leader = { assertLeads: async () => {} } as Coordinator;
const ofTask = { task: 0, worker: "w" };
const counts = { done: 1, failed: 0, errors: {}, usage: noUsage };
const startOf = (attempt?: string): RunEvent => ({
  ...{ type: "task-start", ...ofTask, rows: 1, resumed: 0, resumedUsage: noUsage },
  ...(attempt !== undefined && { attempt }),
});
const end: RunEvent = { type: "task-end", ...ofTask, outcome: "committed", ...counts };

/** A run on a store without conditional writes, whose one task has a proposed commit. */
async function proposedRun({ isLate = false } = {}) {
  const weak = changedStorage(memoryStorage(), () => ({ createsOnce: false }));
  const run = await plannedRun(rowsOf(1), {}, weak);
  const attempt = await openAttempt(run);
  answer(attempt, 0);
  await attempt.commit();
  const storage = changedStorage(weak, (inner) => ({
    async *list(prefix) {
      if (!isLate || !prefix.startsWith(attemptPrefix)) yield* inner.list(prefix);
    },
  }));
  const commits = new ProposedCommits(withContext(run, { storage }), leader);
  const commit = () => run.lines(commitPath(0, run.plan));
  return { commits, attempt: attempt.id, commit };
}

describe("ProposedCommits", () => {
  it("commits what the reported attempt proposed, although no listing shows it yet", async () => {
    const { commits, attempt, commit } = await proposedRun({ isLate: true });
    for (const event of [startOf(attempt), end]) commits.hear(event);
    await commits.settled();
    expect(await commit()).toMatchObject([{ task: 0, attempt }]);
  });

  it("finds what was proposed by an attempt that began before", async () => {
    const { commits, attempt, commit } = await proposedRun();
    for (const event of [startOf(), end]) commits.hear(event);
    await commits.settled();
    expect(await commit()).toMatchObject([{ task: 0, attempt }]);
  });

  it("fails if a reported task has no proposal", async () => {
    const { commits } = await proposedRun({ isLate: true });
    commits.hear(end);
    expect(await errorOf(commits.settled())).toMatchObject({ code: "STORE_FAILED" });
  });
});
