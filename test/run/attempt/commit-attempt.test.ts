import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { attemptPaths, repeatedTaskPath } from "../../../src/run/directory/layout.ts";
import type { RunContext } from "../../../src/run/run-context.ts";
import {
  changedStorage,
  inputPath,
  type PlannedRun,
  plannedRun,
  rowsOf,
  withContext,
} from "../run-fixture.ts";
import { answer, fail, openAttempt, request } from "./open-attempt.ts";

/** The run over a storage that is told whether journals are needed when they are closed. */
function watched(run: PlannedRun): { context: RunContext; needed: (boolean | undefined)[] } {
  const needed: (boolean | undefined)[] = [];
  const storage = changedStorage(run.storage, (inner) => ({
    async appender(path, options) {
      const appender = await inner.appender(path, options);
      return {
        ...appender,
        close: (end) => {
          needed.push(end?.isNeeded);
          return appender.close(end);
        },
      };
    },
  }));
  return { context: withContext(run, { storage }), needed };
}

describe("the journal of a committed attempt", () => {
  it("is not needed where nobody else worked on the task", async () => {
    const run = await plannedRun(rowsOf(1));
    const { context, needed } = watched(run);
    const attempt = await openAttempt(run, 0, context);
    answer(attempt, 0);
    await attempt.commit();
    expect(needed).toEqual([false]);
  });

  it("is needed where nothing tells whether others worked on the task", async () => {
    const run = await plannedRun(rowsOf(1));
    const { context, needed } = watched(run);
    const storage = changedStorage(context.storage, (inner) => ({
      stat: (path) =>
        path === repeatedTaskPath(0, run.plan)
          ? Promise.reject(new SluiceError("STORE_FAILED"))
          : inner.stat(path),
    }));
    const attempt = await openAttempt(run, 0, withContext(run, { storage }));
    answer(attempt, 0);
    await attempt.commit();
    expect(needed).toEqual([true]);
  });

  it("costs the task nothing where it cannot be closed", async () => {
    const run = await plannedRun(rowsOf(1));
    const storage = changedStorage(run.storage, (inner) => ({
      async appender(path, options) {
        const appender = await inner.appender(path, options);
        return { ...appender, close: () => Promise.reject(new Error("refused")) };
      },
    }));
    const attempt = await openAttempt(run, 0, withContext(run, { storage }));
    answer(attempt, 0);
    expect((await attempt.commit()).outcome).toBe("committed");
  });

  it("is needed by who keeps journals", async () => {
    const run = await plannedRun(rowsOf(1), { keepJournals: true });
    const { context, needed } = watched(run);
    const attempt = await openAttempt(run, 0, context);
    answer(attempt, 0);
    await attempt.commit();
    expect(needed).toEqual([true]);
  });

  it("is needed where another attempt came before it, beside it, or was overtaken", async () => {
    const run = await plannedRun(rowsOf(2));
    const { context, needed } = watched(run);
    const first = await openAttempt(run, 0, context);
    const beside = await openAttempt(run, 0, context);
    for (const attempt of [first, beside]) answer(attempt, 0, 1);
    expect((await first.commit()).outcome).toBe("committed");
    expect((await beside.commit()).outcome).toBe("already-committed");
    expect(needed).toEqual([true, true]);

    const other = await plannedRun(rowsOf(1));
    const seen = watched(other);
    await (await openAttempt(other, 0, seen.context)).close();
    const next = await openAttempt(other, 0, seen.context);
    answer(next, 0);
    await next.commit();
    expect(seen.needed).toEqual([undefined, true]);
  });
});

describe("the files of an attempt whose task another one committed", () => {
  it("are removed, all but the journal", async () => {
    const run = await plannedRun(rowsOf(3), {
      input: { path: inputPath, id: "id" },
      output: { path: "/run/out", format: "parquet" },
    });
    const [first, other] = [await openAttempt(run), await openAttempt(run)];
    for (const attempt of [first, other]) {
      attempt.settleAnswered(0, [{ ...request, finishReason: "length" }], '"cut"');
      fail(attempt, 1);
      attempt.settleFiltered(2, []);
    }
    const { commit } = await first.commit();
    const { part, published, columns, lineCounts, deadLetters, rowHashes, ids, cutRows } = commit;
    const files = [part, published, columns, lineCounts, deadLetters, rowHashes, ids, cutRows];
    expect(files).not.toContain(undefined);
    expect(files).not.toContain(null);
    expect((await other.commit()).outcome).toBe("already-committed");
    const { journal } = attemptPaths(0, run.plan, other.id);
    expect(await run.paths(journal.slice(0, -"journal.jsonl".length))).toEqual([journal]);
  });
});
