import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { TaskAttempt } from "../../../src/run/attempt/attempt.ts";
import type { Commit } from "../../../src/run/attempt/commit.ts";
import {
  attemptPaths,
  commitPath,
  deadLetterPath,
  partPath,
} from "../../../src/run/directory/layout.ts";
import { faultyStorage } from "../../fakes/faulty-storage.ts";
import { SimulatedProcess } from "../../fakes/simulated-process.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import {
  changedStorage,
  errorOf,
  inputPath,
  plannedRun,
  rowsOf,
  withContext,
} from "../run-fixture.ts";
import { answer, deaf, fail, openAttempt, request } from "./open-attempt.ts";

const part = partPath(0, 5);
const letters = deadLetterPath(0, 5);

const withOneRequest = (index: number) => ({ index, planned: 1 });

describe("TaskAttempt", () => {
  it("commits its rows in input order, whatever the order of answers", async () => {
    const run = await plannedRun(rowsOf(4));
    const attempt = await openAttempt(run);
    answer(attempt, 3, 0);
    fail(attempt, 1);
    answer(attempt, 2);
    const { outcome, commit } = await attempt.commit();
    expect(outcome).toBe("committed");
    expect(await run.lines(part)).toEqual(
      [0, 2, 3].map((id) => ({ id, text: `row ${id}`, answer: `answer ${id}` })),
    );
    expect(await run.lines(letters)).toMatchObject([{ index: 1, code: "SERVER_ERROR" }]);
    expect((await run.lines(commitPath(0, run.plan)))[0]).toEqual(commit);
    expect(commit).toMatchObject({
      attempt: attempt.id,
      worker: "worker-1",
      rows: { total: 4, answered: 3, filtered: 0, failed: 1, results: 3 },
      requests: { planned: 5, answered: 3 },
      errors: { SERVER_ERROR: { count: 1 } },
    });
  });

  it("does not commit while a row has no outcome", async () => {
    const run = await plannedRun(rowsOf(2));
    const attempt = await openAttempt(run);
    answer(attempt, 0);
    expect((await errorOf(attempt.commit())).code).toBe("ROWS_UNBALANCED");
    expect(await run.paths("_sluice/commits/")).toEqual([]);
  });

  it("counts failed rows by what they failed of", async () => {
    const run = await plannedRun(rowsOf(3));
    const attempt = await openAttempt(run);
    fail(attempt, 0);
    answer(attempt, 1);
    fail(attempt, 2);
    const { commit } = await attempt.commit();
    expect(commit.errors).toEqual({
      SERVER_ERROR: { count: 2, message: expect.stringContaining("row 0") },
    });
  });

  it("keeps every digit of an id in a dead letter", async () => {
    const rows = ['{"id":9007199254740993,"text":"a"}', '{"id":7,"text":"b"}'];
    const run = await plannedRun(rows, { input: { path: inputPath, id: "id" } });
    const attempt = await openAttempt(run);
    fail(attempt, 0);
    answer(attempt, 1);
    await attempt.commit();
    expect(await run.text(letters)).toMatch(/^\{"row":.*\},"index":0,.*"id":9007199254740993,/);
  });

  it("refuses a second outcome of a row", async () => {
    const attempt = await openAttempt(await plannedRun(rowsOf(2)));
    answer(attempt, 0);
    expect(() => answer(attempt, 0)).toThrow("row 0 ended twice");
    expect(() => fail(attempt, 0)).toThrow("row 0 ended twice");
    expect(attempt.openRows).toBe(1);
  });

  it("ends by the commit of another attempt whose seal removes a journal under it", async () => {
    const run = await plannedRun(rowsOf(1));
    const first = await openAttempt(run);
    answer(first, 0);
    const storage = changedStorage(run.storage, (inner) => ({
      async open(path) {
        await first.commit();
        await inner.remove(path);
        return await inner.open(path);
      },
    }));
    const task = await run.task(0);
    const opened = await TaskAttempt.open(withContext(run, { storage }), task, {}, deaf);
    expect(opened).toMatchObject({ task: 0, attempt: first.id });
    const journals = (await run.paths()).filter((path) => path.endsWith("journal.jsonl"));
    expect(journals).toEqual([]);
  });

  it("fails if a journal of an open task is gone", async () => {
    const run = await plannedRun(rowsOf(1));
    await openAttempt(run);
    const storage = changedStorage(run.storage, () => ({
      open: (path) => Promise.reject(new SluiceError("NOT_FOUND", path)),
    }));
    const task = await run.task(0);
    const opening = TaskAttempt.open(withContext(run, { storage }), task, {}, deaf);
    expect((await errorOf(opening)).code).toBe("NOT_FOUND");
  });

  it("publishes nothing before the commit stands", async () => {
    const order: string[] = [];
    const inner = await plannedRun(rowsOf(1));
    const storage = changedStorage(inner.storage, (it) => ({
      createIfAbsent(path, data) {
        order.push("commit");
        return it.createIfAbsent(path, data);
      },
      publish(from, to) {
        order.push(`publish ${to}`);
        return it.publish(from, to);
      },
      async writer(path) {
        const writer = await it.writer(path);
        return {
          ...writer,
          close: () => {
            order.push("write");
            return writer.close();
          },
        };
      },
      async appender(path) {
        const appender = await it.appender(path);
        const sync = async () => {
          await new Promise<void>((resolve) => setImmediate(resolve));
          order.push("sync");
        };
        return { ...appender, sync };
      },
    }));
    const attempt = await openAttempt(inner, 0, withContext(inner, { storage }));
    answer(attempt, 0);
    await attempt.commit();
    expect(order).toEqual(["sync", "write", "commit", `publish ${part}`]);
  });

  it("loses to the commit that stands: its files go, the other's stay", async () => {
    const run = await plannedRun(rowsOf(2));
    const winner = await openAttempt(run);
    const loser = await openAttempt(run, 0, withContext(run, { worker: "worker-2" }));
    answer(winner, 0, 1);
    answer(loser, 0);
    fail(loser, 1);
    const { commit } = await winner.commit();
    expect(await loser.commit()).toEqual({ outcome: "already-committed", commit });
    const files = attemptPaths(0, run.plan, loser.id);
    expect(await run.paths(files.part)).toEqual([]);
    expect(await run.paths(files.deadLetters)).toEqual([]);
    expect(await run.paths(commit.part.path)).toHaveLength(1);
    expect(await run.paths(letters)).toEqual([]);
    expect(await run.lines(part)).toHaveLength(2);
  });

  it("has won where the reply to its own commit was lost", async () => {
    const run = await plannedRun(rowsOf(1));
    const storage = changedStorage(run.storage, (inner) => ({
      async createIfAbsent(path, data) {
        await inner.createIfAbsent(path, data);
        throw new SluiceError("STORE_FAILED", "connection reset");
      },
    }));
    const attempt = await openAttempt(run, 0, withContext(run, { storage }));
    answer(attempt, 0);
    expect((await attempt.commit()).outcome).toBe("committed");
    expect(await run.lines(part)).toHaveLength(1);
  });

  it("publishes nothing once the run is sealed: a retry may have changed the part", async () => {
    const run = await plannedRun(rowsOf(1));
    const storage = changedStorage(run.storage, (inner) => ({
      async createIfAbsent(path, data) {
        const outcome = await inner.createIfAbsent(path, data);
        // While this attempt stands still, others seal the run and retry it.
        await inner.replace("_SUCCESS", Buffer.from("{}"));
        await inner.replace(part, Buffer.from("retried"));
        return outcome;
      },
    }));
    const attempt = await openAttempt(run, 0, withContext(run, { storage }));
    answer(attempt, 0);
    await attempt.commit();
    expect(await run.text(part)).toBe("retried");
  });

  it("finds a task that is committed already", async () => {
    const run = await plannedRun(rowsOf(1));
    const attempt = await openAttempt(run);
    answer(attempt, 0);
    const { commit } = await attempt.commit();
    const listener = { onFailure() {}, onDrain() {} };
    const found = await TaskAttempt.open(run.context, await run.task(0), {}, listener);
    expect(found).toEqual(commit);
  });

  it("goes on where an earlier attempt was left, and reads only the open rows", async () => {
    const run = await plannedRun(rowsOf(4));
    const first = await openAttempt(run);
    answer(first, 2, 0);
    fail(first, 1);
    await first.close();
    const second = await openAttempt(run);
    expect([second.resumed, second.done, second.failed, second.openRows]).toEqual([2, 2, 0, 2]);
    const open: number[] = [];
    for await (const rows of second.readOpenRows()) open.push(...rows.map(({ index }) => index));
    expect(open).toEqual([1, 3]);
    answer(second, 3, 1);
    await second.commit();
    expect((await run.lines(part)).map((row) => row.answer)).toEqual(
      [0, 1, 2, 3].map((row) => `answer ${row}`),
    );
  });

  it("counts the tokens of failed rows and of earlier attempts as well", async () => {
    const run = await plannedRun(rowsOf(3));
    const first = await openAttempt(run);
    answer(first, 0);
    await first.close();
    const second = await openAttempt(run);
    answer(second, 1);
    fail(second, 2, ["one of two"]);
    const { commit } = await second.commit();
    expect(commit.usage).toEqual({ promptTokens: 21, cachedTokens: 0, completionTokens: 9 });
    expect(commit.requests).toEqual({ planned: 4, answered: 3 });
  });

  it("asks rows with care after a worker died, halved by what was on file before", async () => {
    const run = await plannedRun(rowsOf(8));
    const ends = { suspects: { attempt: "dead", rows: "0-3", together: 4 } };
    const first = await openAttempt(run, 0, run.context, ends);
    expect(first.suspicion).toEqual({ rows: 4, together: 2 });
    // Killed here: an attempt that closes says that its rows came back.
    await first.noteAsked([0, 1].map(withOneRequest));
    const second = await openAttempt(run, 0, run.context, ends);
    expect(second.suspicion).toEqual({ rows: 4, together: 1 });
  });

  it("reads the rows that are suspected before those that are not", async () => {
    const run = await plannedRun(rowsOf(8));
    const dead = await openAttempt(run);
    answer(dead, 1, 4);
    fail(dead, 0);
    fail(dead, 3);
    await dead.flush();
    const suspects = { attempt: dead.id, rows: "0-5", together: 4 };
    const attempt = await openAttempt(run, 0, run.context, { suspects });
    expect(attempt.suspicion).toEqual({ rows: 2, together: 1 });
    const read: number[] = [];
    for await (const rows of attempt.readOpenRows()) read.push(...rows.map(({ index }) => index));
    expect(read).toEqual([2, 5, 0, 3, 6, 7]);
  });

  it("blames no row for its end once it was told to leave", async () => {
    const run = await plannedRun(rowsOf(2));
    for (let time = 0; time < limits.maxRowKills; time++) {
      const attempt = await openAttempt(run);
      await attempt.noteAsked([withOneRequest(0)]);
      attempt.spareAsked();
      // What comes back afterwards counts once.
      attempt.noteReturned(0);
      await attempt.flush();
    }
    const attempt = await openAttempt(run);
    expect([attempt.failed, attempt.suspicion.rows]).toEqual([0, 0]);
  });

  it("commits whole files or nothing, wherever it is closed meanwhile", async () => {
    const ends = new Set<string>();
    for (let calls = 1; ; calls++) {
      const run = await plannedRun(rowsOf(3));
      let left = Number.POSITIVE_INFINITY;
      let closed: Promise<void> | undefined;
      const process = new SimulatedProcess(virtualClock());
      const storage = faultyStorage(run.storage, process, () => {
        if (--left === 0) closed = attempt.close();
        return undefined;
      });
      const attempt = await openAttempt(run, 0, withContext(run, { storage }));
      for await (const [row0, row1, row2] of attempt.readOpenRows()) {
        attempt.settleAnswered(0, [request], '"a"', row0);
        fail(attempt, 1, undefined, row1);
        attempt.settleAnswered(2, [request], '"c"', row2);
      }
      left = calls;
      const outcome = await attempt.commit().then(
        (end) => end.outcome,
        () => "failed" as const,
      );
      await closed;
      ends.add(outcome);
      const commits = await run.paths("_sluice/commits/");
      expect([outcome, commits.length]).toEqual([outcome, outcome === "failed" ? 0 : 1]);
      if (outcome !== "failed") {
        expect((await run.lines(part)).length).toBe(2);
        expect((await run.lines(letters)).length).toBe(1);
      }
      if (closed === undefined) break;
    }
    expect([...ends].sort()).toEqual(["committed", "failed"]);
  });

  it("names a row that lacks its id, or whose id is neither text nor number", async () => {
    const ids = ['"id":{"a":1},', '"id":1,', "", '"id":null,', '"id":"",'];
    const rows = ids.map((id) => `{${id}"text":"x"}`);
    const run = await plannedRun(rows, { input: { path: "/in/rows.jsonl", id: "id" } });
    const attempt = await openAttempt(run);
    const faults: (string | undefined)[] = [];
    for await (const batch of attempt.readOpenRows()) {
      for (const row of batch) faults.push(attempt.idFault(row)?.code);
    }
    const invalid = "ID_INVALID";
    expect(faults).toEqual([invalid, undefined, invalid, invalid, undefined]);
  });

  it("refuses an input that changed since it was planned", async () => {
    const run = await plannedRun(rowsOf(2));
    const attempt = await openAttempt(run);
    answer(attempt, 0, 1);
    run.files["/in/rows.jsonl"] = run.files["/in/rows.jsonl"]!.replace("row 1", "ROW 1");
    expect((await errorOf(attempt.commit())).code).toBe("INPUT_CHANGED");
    expect(await run.paths("_sluice/commits/")).toEqual([]);
  });

  it("keeps a commit small, whatever the messages of its failures are", async () => {
    const run = await plannedRun(rowsOf(1));
    const attempt = await openAttempt(run);
    const error = new SluiceError("SERVER_ERROR", "x".repeat(100_000));
    attempt.settleFailed(0, { error, tries: 1, requests: [request], planned: 1 });
    await attempt.commit();
    const path = commitPath(0, run.plan);
    expect((await run.text(path)).length).toBeLessThan(64 * 1024);
    const [commit] = (await run.lines(path)) as unknown as Commit[];
    expect(commit!.errors).toEqual({ SERVER_ERROR: { count: 1, message: "" } });
  });
});
