import { describe, expect, it } from "vitest";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import type { TaskAttempt } from "../../../src/run/attempt/attempt.ts";
import type { Commit } from "../../../src/run/attempt/commit.ts";
import { commitPath, planPath, taskAttemptsPrefix } from "../../../src/run/directory/layout.ts";
import { recordBytes } from "../../../src/run/directory/records.ts";
import { sealRun } from "../../../src/run/seal/seal.ts";
import { answer, openAttempt, request } from "../attempt/open-attempt.ts";
import { changedStorage, errorOf, type PlannedRun, plannedRun, rowsOf } from "../run-fixture.ts";

const options = { engine: null, assertLeads: async () => {} };

/** A run of `tasks` tasks of one row, planned. */
async function run(tasks: number): Promise<PlannedRun> {
  const planned = await plannedRun(rowsOf(tasks), { shard: { rows: 1 } });
  await planned.storage.replace(planPath, recordBytes(planned.plan));
  return planned;
}

async function commitAlone(planned: PlannedRun, task: number): Promise<void> {
  const attempt = await openAttempt(planned, task);
  answer(attempt, task);
  await attempt.commit();
}

/** Two attempts at a task, of which the second begins while the first one is at work. */
async function besideOneAnother(planned: PlannedRun, task: number) {
  const first = await openAttempt(planned, task);
  await planned.clock.run(sleep(planned.clock, 5));
  const second = await openAttempt(planned, task);
  answer(first, task);
  second.settleAnswered(task, [{ ...request, seconds: 0.5 }], '"another answer"');
  return [first, second] as const;
}

async function seal(planned: PlannedRun, storage: Storage = planned.storage) {
  const { bill } = await sealRun({ ...planned.context, storage }, options);
  return bill!.paidTwice.lost.answers;
}

const journals = async (planned: PlannedRun) =>
  (await planned.paths("_sluice/attempts/")).filter((path) => path.endsWith("journal.jsonl"));

/** Notes which prefixes are listed and which objects are read. */
function watched(inner: Storage) {
  const listed: string[] = [];
  const read: string[] = [];
  const storage = changedStorage(inner, () => ({
    list(prefix) {
      listed.push(prefix);
      return inner.list(prefix);
    },
    read(path) {
      read.push(path);
      return inner.read(path);
    },
  }));
  return { storage, listed, read };
}

describe("the journals that a seal reads", () => {
  it.each([
    ["the first", 0],
    ["the second", 1],
  ])("are those of attempts beside one another, of which %s committed", async (_name, winner) => {
    const planned = await run(3);
    for (const task of [0, 2]) await commitAlone(planned, task);
    const attempts = await besideOneAnother(planned, 1);
    await (attempts[1 - winner] as TaskAttempt).close();
    await (attempts[winner] as TaskAttempt).commit();
    expect(await journals(planned)).toHaveLength(4);
    expect(await seal(planned)).toBe(1);
    expect(await journals(planned)).toEqual([]);
  });

  it("are not looked for where nobody else began the task", async () => {
    const planned = await run(4);
    for (const task of [0, 1, 3]) await commitAlone(planned, task);
    const [first, second] = await besideOneAnother(planned, 2);
    await second.close();
    await first.commit();
    const { storage, listed, read } = watched(planned.storage);
    await seal(planned, storage);
    const folders = listed.filter((prefix) => prefix.includes("/g1/"));
    expect(folders).toEqual([taskAttemptsPrefix(2, planned.plan)]);
    const commits = read.filter((path) => path.startsWith("_sluice/commits/"));
    expect(commits).toEqual([0, 1, 2, 3].map((task) => commitPath(task, planned.plan)));
  });

  it("are looked for where a commit does not say whether its attempt was the first", async () => {
    const planned = await run(1);
    const [first, second] = await besideOneAnother(planned, 0);
    await second.close();
    await first.commit();
    const noted = (await planned.paths()).filter((path) => path.includes("-repeated/"));
    expect(noted).toHaveLength(1);
    for (const path of noted) await planned.storage.remove(path);
    const path = commitPath(0, planned.plan);
    const commit = (await planned.lines(path))[0] as unknown as Commit;
    const { earlierAttempts: _, ...old } = commit;
    await planned.storage.replace(path, recordBytes(old));
    expect(await seal(planned)).toBe(1);
    expect(await journals(planned)).toEqual([]);
  });

  it("are noted before an attempt takes anything over", async () => {
    const planned = await run(1);
    const first = await openAttempt(planned, 0);
    answer(first, 0);
    await first.flush();
    await planned.clock.run(sleep(planned.clock, 5));
    const full = changedStorage(planned.storage, () => ({
      createIfAbsent: () => Promise.reject(new Error("no space")),
    }));
    const opening = openAttempt(planned, 0, { ...planned.context, storage: full });
    expect((await errorOf(opening)).message).toBe("no space");
    const [, second] = await journals(planned);
    expect(await planned.text(second!)).toBe("");
  });
});
