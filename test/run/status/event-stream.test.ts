import { describe, expect, it } from "vitest";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { eventLogPath } from "../../../src/run/directory/layout.ts";
import { EventStream, type EventStreamOptions } from "../../../src/run/status/event-stream.ts";
import type { RunEvent } from "../../../src/run/status/events.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { changedStorage, plannedRun, rowsOf } from "../run-fixture.ts";

const notice = (message: string): RunEvent => ({ type: "notice", message });

const started: RunEvent = {
  ...{ type: "run-start", runId: "r", output: "out", tasks: 1, rows: 10 },
  ...{ resumedTasks: 0, resumedRows: 0, generation: 1 },
};

/** A stream of a run in memory, and what its listener hears. */
async function opened(given: Partial<EventStreamOptions> = {}) {
  const run = await plannedRun(rowsOf(1));
  const clock = virtualClock();
  const heard: RunEvent[] = [];
  const open = (writer: number | string) =>
    EventStream.open({
      ...{ storage: run.storage, clock, logger: silentLogger, writer },
      onEvent: (event) => void heard.push(event),
      ...given,
    });
  return { run, clock, heard, open, lines: (it: number | string) => run.lines(eventLogPath(it)) };
}

describe("EventStream", () => {
  it("keeps every event in order, by writer and number, save what tells progress", async () => {
    const { open, heard, lines } = await opened();
    const events = await open(3);
    events.add(notice("one"));
    events.add({ type: "plan-progress", rows: 1, bytes: 1, totalBytes: 1 });
    events.add(notice("two"));
    await events.close();
    expect(heard).toHaveLength(3);
    const head = { time: expect.stringMatching(/^\d{4}-.*Z$/), writer: "3" };
    expect(await lines(3)).toEqual([
      { ...head, sequence: 0, type: "notice", message: "one" },
      { ...head, sequence: 1, type: "notice", message: "two" },
    ]);
  });

  it("goes on behind what an earlier process wrote", async () => {
    const { open, lines } = await opened();
    for (const message of ["one", "two"]) {
      const events = await open(1);
      events.add(notice(message));
      await events.close();
    }
    expect(await lines(1)).toHaveLength(2);
  });

  it("loses none that come in whatever moment of a write", async () => {
    const { open, lines } = await opened();
    for (let turns = 1; turns <= 12; turns++) {
      const events = await open(turns);
      events.add(notice("one"));
      for (let turn = 0; turn < turns; turn++) await Promise.resolve();
      events.add(notice("two"));
      await events.close();
      expect(await lines(turns)).toHaveLength(2);
    }
  });

  it.each(["appender", "append"])("lets the run go on where %s fails", async (what) => {
    const warnings: string[] = [];
    let closed = 0;
    const close = async () => void closed++;
    const run = await plannedRun(rowsOf(1));
    const failure = () => Promise.reject(new SluiceError("STORE_FULL"));
    const storage = changedStorage(run.storage, (inner) => ({
      appender: async (path) =>
        what === "appender"
          ? failure()
          : { ...(await inner.appender(path)), append: failure, close },
    }));
    const logger = { log: (_level: string, text: string) => void warnings.push(text) };
    const { open } = await opened({ storage, logger });
    const events = await open(1);
    events.add(notice("one"));
    await events.close();
    expect(warnings).toEqual([expect.stringContaining("no event log: the disk is full")]);
    expect(closed).toBe(what === "append" ? 1 : 0);
  });

  it("says how far the run is every 5 s, until it ends", async () => {
    const { open, heard, lines, clock } = await opened();
    const pass = (delayMs: number) => clock.run(sleep(clock, delayMs));
    const events = await open("worker");
    await pass(60_000);
    expect(heard).toEqual([]);
    events.add(started);
    const task = { task: 0, worker: "w", errors: {} };
    const usage = { ...noUsage, promptTokens: 50, completionTokens: 20 };
    events.add({
      ...{ ...task, type: "task-start", rows: 10, resumed: 0, resumedUsage: noUsage },
    });
    await pass(1000);
    events.add({ ...task, type: "task-progress", inFlight: 3, done: 4, failed: 1, usage });
    await pass(limits.runProgressIntervalMs - 1000);
    const told = heard.at(-1);
    expect(told).toEqual({
      ...{ type: "run-progress", done: 4, rows: 10, failed: 1, cut: 0, inFlight: 3, usage },
      ...{ rowsPerSecond: 0.8, promptTokensPerSecond: 10, completionTokensPerSecond: 4 },
      etaSeconds: 7.5,
    });
    events.add({ type: "run-seal", manifest: "m", rows: 10, failed: 1 });
    await pass(60_000);
    await events.close();
    const kept = (await lines("worker")) as { type: string }[];
    expect(kept.map(({ type }) => type)).toEqual([
      "run-start",
      "task-start",
      "run-progress",
      "run-seal",
    ]);
  });
});
