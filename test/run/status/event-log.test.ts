import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { eventLogPath } from "../../../src/run/directory/layout.ts";
import { EventLog } from "../../../src/run/status/event-log.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { changedStorage, plannedRun, rowsOf, withContext } from "../run-fixture.ts";

const notice = (message: string): RunEvent => ({ type: "notice", message });

describe("EventLog", () => {
  it("keeps every event in order, with its time, save those that only tell progress", async () => {
    const run = await plannedRun(rowsOf(1));
    const log = await EventLog.open(run.context, 3);
    log.add(notice("one"));
    log.add({ type: "plan-progress", rows: 1, bytes: 1, totalBytes: 1 });
    log.add(notice("two"));
    await log.close();
    const time = "2026-01-01T00:00:00.000Z";
    expect(await run.lines(eventLogPath(3))).toEqual([
      { time, type: "notice", message: "one" },
      { time, type: "notice", message: "two" },
    ]);
  });

  it("goes on behind what an earlier process wrote", async () => {
    const run = await plannedRun(rowsOf(1));
    for (const message of ["one", "two"]) {
      const log = await EventLog.open(run.context, 1);
      log.add(notice(message));
      await log.close();
    }
    expect(await run.lines(eventLogPath(1))).toHaveLength(2);
  });

  it("loses none that come in whatever moment of a write", async () => {
    const run = await plannedRun(rowsOf(1));
    for (let turns = 1; turns <= 12; turns++) {
      const log = await EventLog.open(run.context, turns);
      log.add(notice("one"));
      for (let turn = 0; turn < turns; turn++) await Promise.resolve();
      log.add(notice("two"));
      await log.close();
      expect(await run.lines(eventLogPath(turns))).toHaveLength(2);
    }
  });

  it.each(["appender", "append"])("lets the run go on where %s fails", async (what) => {
    const warnings: string[] = [];
    const run = await plannedRun(rowsOf(1));
    const failure = () => Promise.reject(new SluiceError("STORE_FULL"));
    const storage = changedStorage(run.storage, (inner) => ({
      appender: async (path) =>
        what === "appender" ? failure() : { ...(await inner.appender(path)), append: failure },
    }));
    const logger = { log: (_level: string, text: string) => void warnings.push(text) };
    const log = await EventLog.open(withContext(run, { storage, logger }), 1);
    log.add(notice("one"));
    await log.close();
    expect(warnings).toEqual([expect.stringContaining("no event log: the disk is full")]);
  });
});
