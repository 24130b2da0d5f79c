import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { Commit } from "../../../src/run/attempt/commit.ts";
import { commitPath, planPath, sealPath } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import { sealRun } from "../../../src/run/seal/seal.ts";
import { readManifest } from "../../../src/run/seal/seals.ts";
import { verifyRun } from "../../../src/run/seal/verify.ts";
import { answer, fail, openAttempt } from "../attempt/open-attempt.ts";
import { changedStorage, errorOf, type PlannedRun, plannedRun, rowsOf } from "../run-fixture.ts";

const options = { engine: null, assertLeads: async () => {} };

/** A run of three tasks, all committed, of which one row failed. */
async function committedRun(): Promise<PlannedRun> {
  const run = await plannedRun(rowsOf(6), { shard: { rows: 2 } });
  await run.storage.replace(planPath, recordBytes(run.plan));
  for (const task of [2, 0, 1]) {
    const attempt = await openAttempt(run, task);
    answer(attempt, task * 2);
    if (task === 1) fail(attempt, 3);
    else answer(attempt, task * 2 + 1);
    await attempt.commit();
  }
  return run;
}

async function changeCommit(run: PlannedRun, task: number, change: (commit: Commit) => Commit) {
  const path = commitPath(task, run.plan);
  const [commit] = (await run.lines(path)) as unknown as Commit[];
  await run.storage.replace(path, recordBytes(change(commit!)));
}

describe("sealRun", () => {
  it("states every task in order and the sums of all, and writes _SUCCESS last", async () => {
    const run = await committedRun();
    const order: string[] = [];
    const storage = changedStorage(run.storage, (inner) => ({
      publish: (from, to) => inner.publish(from, to).then(() => void order.push(to)),
      replace: (path, data) => inner.replace(path, data).then(() => void order.push(path)),
      async createIfAbsent(path, data) {
        order.push(path);
        return inner.createIfAbsent(path, data);
      },
    }));
    const manifest = await sealRun({ ...run.context, storage }, options);
    expect(manifest.tasks.map(({ task, rows, failed }) => [task, rows, failed])).toEqual([
      [0, 2, 0],
      [1, 2, 1],
      [2, 2, 0],
    ]);
    expect(manifest.rows).toEqual({ total: 6, answered: 5, filtered: 0, failed: 1, results: 5 });
    expect(manifest.errors).toMatchObject({ SERVER_ERROR: { count: 1 } });
    const seal = sealPath(run.plan);
    expect(order.slice(-3)).toEqual([seal, "_manifest.json", "_SUCCESS"]);
    // The other parts stand under their names; this task has dead letters as well.
    expect(order.filter((path) => path.startsWith("part-"))).toEqual(["part-00001.jsonl"]);
    expect(await readManifest(run.storage)).toEqual(manifest);
  });

  it("adds up what commits state, which verify finds as well", async () => {
    const run = await committedRun();
    for (const [task, busySeconds] of [1, 2.5, 4].entries()) {
      await changeCommit(run, task, (commit) => ({ ...commit, busySeconds }));
    }
    const { busySeconds, bill } = await sealRun(run.context, options);
    expect([busySeconds, bill?.busySeconds]).toEqual([7.5, 7.5]);
    expect((await verifyRun(run.storage, run.context.outside)).damages).toEqual([]);
  });

  it("seals nothing if another process leads while parts are published", async () => {
    const run = await committedRun();
    let leads = true;
    const storage = changedStorage(run.storage, (inner) => ({
      async publish(from, to) {
        leads = false;
        return inner.publish(from, to);
      },
    }));
    const assertLeads = async () => {
      if (!leads) throw new SluiceError("COORDINATOR_LOST");
    };
    const context = { ...run.context, storage };
    const error = await errorOf(sealRun(context, { ...options, assertLeads }));
    expect(error.code).toBe("COORDINATOR_LOST");
    expect(await run.paths(sealPath(run.plan))).toEqual([]);
  });

  it("publishes a part again whose name holds something else", async () => {
    const run = await committedRun();
    const part = Buffer.from(await run.storage.read("part-00000.jsonl"));
    await run.storage.replace("part-00000.jsonl", part.subarray(0, 5));
    await sealRun(run.context, options);
    expect(Buffer.from(await run.storage.read("part-00000.jsonl"))).toEqual(part);
  });

  it("publishes what a worker did not come to publish", async () => {
    const run = await committedRun();
    await run.storage.remove("part-00001.jsonl");
    await run.storage.remove("_dead-letters/part-00001.jsonl");
    await sealRun(run.context, options);
    expect(await run.lines("part-00001.jsonl")).toHaveLength(1);
    expect(await run.lines("_dead-letters/part-00001.jsonl")).toHaveLength(1);
  });

  it("changes nothing the second time", async () => {
    const run = await committedRun();
    await sealRun(run.context, options);
    const snapshot = async () => {
      const paths = await run.paths();
      return Promise.all(paths.map(async (path) => [path, await run.text(path)]));
    };
    const before = await snapshot();
    await run.clock.run(new Promise<void>((resolve) => run.clock.schedule(5000, resolve)));
    await sealRun(run.context, options);
    expect(await snapshot()).toEqual(before);
  });

  it("puts published files back as the seal says, where an older process came late", async () => {
    const run = await committedRun();
    const sealed = await sealRun(run.context, options);
    const before = await run.text("part-00000.jsonl");
    await run.storage.replace("part-00000.jsonl", Buffer.from("of an older generation"));
    await run.storage.replace("_dead-letters/part-00009.jsonl", Buffer.from("of nobody"));
    expect(await sealRun(run.context, options)).toEqual(sealed);
    expect(await run.text("part-00000.jsonl")).toBe(before);
    expect(await run.paths("_dead-letters/part-00009")).toEqual([]);
    // Only the contents tell what has the same size.
    await run.storage.replace("part-00000.jsonl", Buffer.from(before.toUpperCase()));
    await sealRun(run.context, { ...options, look: "contents" });
    expect(await run.text("part-00000.jsonl")).toBe(before);
  });

  it("refuses a run with a task that is not committed", async () => {
    const run = await committedRun();
    await run.storage.remove(commitPath(2, run.plan));
    const error = await errorOf(sealRun(run.context, options));
    expect(error.message).toContain("2 of 3 tasks are committed");
    expect(await run.paths("_SUCCESS")).toEqual([]);
  });

  it("refuses commits that do not hold every planned row once", async () => {
    const fewer = await committedRun();
    await changeCommit(fewer, 0, (commit) => ({
      ...commit,
      rows: { ...commit.rows, total: 1, answered: 1 },
    }));
    expect((await errorOf(sealRun(fewer.context, options))).code).toBe("ROWS_UNBALANCED");
    const uneven = await committedRun();
    await changeCommit(uneven, 0, (commit) => ({
      ...commit,
      rows: { ...commit.rows, answered: 1 },
    }));
    expect((await errorOf(sealRun(uneven.context, options))).message).toContain("task 0");
  });

  it("refuses rows that are missing in one task and too many in another", async () => {
    const run = await committedRun();
    const shift = (by: number) => (commit: Commit) => ({
      ...commit,
      rows: { ...commit.rows, total: 2 + by, answered: 2 + by },
    });
    await changeCommit(run, 0, shift(1));
    await changeCommit(run, 2, shift(-1));
    expect((await errorOf(sealRun(run.context, options))).code).toBe("ROWS_UNBALANCED");
  });

  it("refuses a commit that is another task's or another run's", async () => {
    for (const change of [{ task: 1 }, { run: "other" }, { generation: 2 }]) {
      const run = await committedRun();
      await changeCommit(run, 0, (commit) => ({ ...commit, ...change }));
      expect((await errorOf(sealRun(run.context, options))).code).toBe("RUN_DAMAGED");
    }
  });

  it("publishes and seals nothing for a coordinator that leads no more", async () => {
    const run = await committedRun();
    await run.storage.replace("part-00000.jsonl", Buffer.from("of a later generation"));
    const assertLeads = () => Promise.reject(new SluiceError("COORDINATOR_LOST"));
    const error = await errorOf(sealRun(run.context, { ...options, assertLeads }));
    expect(error.code).toBe("COORDINATOR_LOST");
    expect(await run.text("part-00000.jsonl")).toBe("of a later generation");
    expect(await run.paths("_manifest")).toEqual([]);
  });
});
