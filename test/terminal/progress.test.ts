import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/run/status/events.ts";
import { initialProgress, reduceProgress, totalsOf } from "../../src/run/status/progress-state.ts";
import type { TaskOutcome } from "../../src/run/worker/protocol.ts";
import { progressMode, showProgress } from "../../src/terminal/progress.ts";
import { duration, renderProgress, renderProgressLine } from "../../src/terminal/progress-view.ts";
import { textWidth } from "../../src/terminal/table.ts";
import { handClock } from "../hand-clock.ts";

const usage = (promptTokens: number, completionTokens: number) => ({
  promptTokens,
  cachedTokens: 0,
  completionTokens,
});
const start: RunEvent = {
  type: "run-start",
  runId: "20300101T000000Z",
  output: "/out",
  tasks: 4,
  rows: 2000,
  resumedTasks: 1,
  resumedRows: 500,
  generation: 1,
};
const workerStart = (name: string): RunEvent => ({
  type: "worker-start",
  worker: name,
  pid: 7,
  capacity: 8,
  engine: "fake",
  choices: {},
});
const worker = workerStart("w1");
const task: RunEvent = {
  type: "task-start",
  task: 1,
  worker: "w1",
  rows: 500,
  resumed: 100,
  resumedUsage: usage(1000, 200),
};
const progress = (done: number, failed = 0): RunEvent => ({
  type: "task-progress",
  task: 1,
  worker: "w1",
  done,
  failed,
  errors: failed > 0 ? { TIMEOUT: { count: failed, message: "slow" } } : {},
  inFlight: 8,
  usage: usage(done * 10, done * 2),
});
const end = (outcome: TaskOutcome): RunEvent & { type: "task-end" } => ({
  type: "task-end",
  task: 1,
  worker: "w1",
  outcome,
  done: 500,
  failed: 3,
  errors: { TIMEOUT: { count: 3, message: "slow" } },
  usage: usage(5000, 1000),
});

function after(events: readonly [at: number, event: RunEvent][]) {
  return events.reduce(
    (state, [at, event]) => reduceProgress(state, event, at),
    initialProgress(0),
  );
}

describe("reduceProgress", () => {
  it("counts rows of earlier calls as done, and rates only those of this one", () => {
    const state = after([
      [0, start],
      [0, worker],
      [0, task],
      [10_000, progress(300, 2)],
    ]);
    expect(totalsOf(state)).toEqual({
      done: 800,
      fresh: 200,
      failed: 2,
      cut: 0,
      errors: { TIMEOUT: { count: 2, message: "slow" } },
      inFlight: 8,
      usage: usage(2000, 400),
    });
    const line = renderProgressLine(state, 10_000);
    expect(line).toContain("800/2,000 rows, 1/4 tasks");
    expect(line).toContain("20 rows/s");
    expect(line).toContain("200 tokens/s in");
    expect(line).toContain("40 tokens/s out");
    expect(line).toContain("8 in flight, 2 failed, ETA 1m00s");
  });

  it("counts a committed task once", () => {
    const events: [number, RunEvent][] = [
      [0, start],
      [0, worker],
      [0, task],
      [5000, progress(400)],
      [9000, end("committed")],
    ];
    const state = after(events);
    expect(totalsOf(state)).toMatchObject({ done: 1000, fresh: 400, failed: 3, inFlight: 0 });
    expect(state.ended.tasks).toBe(1);
    expect(totalsOf(state).usage).toEqual(usage(4000, 800));
  });

  it("counts the tasks with which a joining worker helps others", () => {
    const share = { ...start, tasks: 1, rows: 500, resumedTasks: 0, resumedRows: 0 };
    const fresh = { ...task, resumed: 0, resumedUsage: usage(0, 0) };
    const own: [number, RunEvent][] = [
      [0, share],
      [0, worker],
      [0, fresh],
      [9000, end("committed")],
    ];
    expect(renderProgressLine(after(own), 9000)).toContain("500/500 rows, 1/1 tasks");
    const other: RunEvent = { ...fresh, task: 2 };
    const helping = after([...own, [9000, other]]);
    expect(renderProgressLine(helping, 9500)).toContain("500/1,000 rows, 1/2 tasks");
  });

  it("keeps what a stopped task has in its journal, until the task is begun again", () => {
    const stopped: [number, RunEvent][] = [
      [0, start],
      [0, worker],
      [0, task],
      [1000, progress(400)],
      [2000, { ...end("canceled"), done: 450, failed: 0, errors: {}, usage: usage(4500, 900) }],
      [2000, { type: "worker-end", worker: "w1" }],
    ];
    const left = after(stopped);
    expect(totalsOf(left)).toMatchObject({ done: 950, fresh: 350, inFlight: 0 });
    expect(totalsOf(left).usage).toEqual(usage(3500, 700));
    expect(renderProgress(left, 100, 2000)).toHaveLength(2);
    const resumed = { ...task, resumed: 450, resumedUsage: usage(4500, 900) };
    expect(totalsOf(after([...stopped, [3000, worker], [3000, resumed]])).done).toBe(950);
  });

  it("takes back what a failed task or a dead worker had open", () => {
    const begun: [number, RunEvent][] = [
      [0, start],
      [0, worker],
      [0, task],
      [1000, progress(400)],
    ];
    expect(totalsOf(after([...begun, [2000, end("failed")]])).done).toBe(500);
    const dead: RunEvent = { type: "worker-end", worker: "w1" };
    const state = after([...begun, [2000, dead]]);
    expect(totalsOf(state).done).toBe(500);
    expect(state.workers.size).toBe(0);
  });

  it("counts failed rows of ended and open tasks by code, those of a lost attempt not", () => {
    const begun: [number, RunEvent][] = [
      [0, start],
      [0, worker],
      [0, task],
      [1000, progress(300, 2)],
    ];
    const lost = after([...begun, [2000, { type: "worker-end", worker: "w1" }]]);
    expect(totalsOf(lost)).toMatchObject({ failed: 0, errors: {} });
    const again = after([
      ...begun,
      [2000, { type: "worker-end", worker: "w1" }],
      [3000, worker],
      [3000, task],
      [4000, progress(300, 2)],
    ]);
    expect(renderProgressLine(again, 4000)).toContain("TIMEOUT 2");
    const ended = reduceProgress(again, end("committed"), 5000);
    expect(totalsOf(ended).errors).toEqual({ TIMEOUT: { count: 3, message: "slow" } });
  });
});

describe("renderProgress", () => {
  const state = after([
    [0, start],
    [0, worker],
    [0, task],
    [10_000, progress(300)],
  ]);

  it("draws a bar, the facts, what failed, and a line for each of several workers", () => {
    const lines = renderProgress(state, 100, 10_000);
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^\[█{12}░{18}\] {2}40% {2}800\/2,000 rows$/);
    expect(lines[1]).toBe(
      "10s elapsed  ETA 1m00s  20 rows/s  1/4 tasks  8 in flight  200 tokens/s in  40 out",
    );
    const two = reduceProgress(state, workerStart("other"), 10_000);
    const failing = reduceProgress(two, progress(300, 2), 10_000);
    expect(renderProgress(failing, 60, 10_000).slice(1)).toEqual([
      "10s elapsed  ETA 1m00s  20 rows/s  1/4 tasks  8 in flight",
      "200 tokens/s in  40 out",
      "2 failed: 2 TIMEOUT",
      "  worker 1  200 rows  task 1, 8 in flight",
      "  worker 2  0 rows  idle",
    ]);
  });

  it("says what is done before the first row, and leaves that time out of the rates", () => {
    const loading = after([[0, start]]);
    expect(renderProgress(loading, 60, 4000)[1]).toBe(
      "starting a worker and loading the model  4s",
    );
    const step = { text: "fetching tiny, 9.0 MB", share: 0.5 };
    expect(renderProgress({ ...loading, step }, 60, 4000)[1]).toBe(
      `[${"█".repeat(15)}${"░".repeat(15)}]  50%  fetching tiny, 9.0 MB`.slice(0, 60),
    );
    const loaded = after([
      [0, start],
      [60_000, worker],
      [60_000, task],
      [70_000, progress(300)],
    ]);
    expect(renderProgress(loaded, 100, 70_000)[1]).toContain("ETA 1m00s  20 rows/s");
  });

  it("counts what an earlier attempt of this call answered, so that no ETA jumps", () => {
    const again = after([
      [0, start],
      [0, worker],
      [0, task],
      [10_000, progress(300)],
      [10_000, { type: "worker-end", worker: "w1" }],
      [11_000, workerStart("w2")],
      [11_000, { ...task, worker: "w2", resumed: 300, resumedUsage: usage(3000, 600) }],
    ]);
    expect(totalsOf(again)).toMatchObject({ done: 800, fresh: 200 });
    expect(renderProgress(again, 100, 11_000)[1]).toContain("ETA 1m06s  18 rows/s");
  });

  it("says what was spent, where there is a budget", () => {
    const spent = { tokens: 300, usd: null, minutes: 1 };
    const told = after([
      [0, start],
      [5, worker],
      [10, { type: "budget-progress", spent, budget: { tokens: 900 } }],
    ]);
    expect(renderProgress(told, 200, 10_000)[1]).toContain("300/900 tokens");
    expect(renderProgress(state, 200, 10_000)[1]).not.toContain("tokens  ");
  });

  it("never draws a line wider than the terminal", () => {
    for (const columns of [10, 20, 40, 80]) {
      for (const line of renderProgress(state, columns, 10_000)) {
        expect(textWidth(line)).toBeLessThanOrEqual(columns);
      }
    }
  });

  it("shows how far the input is read before the run", () => {
    const event: RunEvent = { type: "plan-progress", rows: 1000, bytes: 30, totalBytes: 60 };
    expect(renderProgress(after([[0, event]]), 80, 1)).toEqual([
      `[${"█".repeat(15)}${"░".repeat(15)}]  50%  reading the input, 1,000 rows`,
    ]);
  });

  it("names only so many workers", () => {
    const events = Array.from({ length: 20 }, (_, index): [number, RunEvent] => [
      0,
      workerStart(`w${index}`),
    ]);
    const lines = renderProgress(after([[0, start], ...events]), 80, 1);
    expect(lines).toHaveLength(2 + 8);
    expect(lines.at(-1)).toBe("  and 13 more workers");
  });
});

describe("duration", () => {
  it("has two units at most", () => {
    expect([42, 185, 7620, 360_000].map(duration)).toEqual(["42s", "3m05s", "2h07m", "4d04h"]);
  });
});

function shown(mode: "block" | "lines" | "json" | "quiet") {
  const writes: string[] = [];
  const { clock, pass } = handClock();
  const stream = { write: (text: string) => writes.push(text) > 0 };
  const view = showProgress({ mode, stream, columns: () => 80, clock });
  return { view, writes, pass };
}

/** What stands on a terminal after such writes: moves up and clears below are all we use. */
function screen(writes: readonly string[]): string[] {
  const lines: string[] = [];
  const up = new RegExp(`^${"\u001b"}\\[(\\d+)A\\r${"\u001b"}\\[J`);
  for (const text of writes) {
    const moved = up.exec(text);
    if (moved) lines.splice(lines.length - Number(moved[1]));
    lines.push(
      ...text
        .slice(moved?.[0].length ?? 0)
        .split("\n")
        .slice(0, -1),
    );
  }
  return lines;
}

describe("showProgress", () => {
  it("redraws one block in place, with logs above it", () => {
    const { view, writes, pass } = shown("block");
    view.onEvent(start);
    view.onEvent(worker);
    pass(100);
    view.logger.log("warn", "the endpoint is slow");
    view.onEvent(task);
    view.onEvent(progress(300));
    pass(100);
    view.close();
    const lines = screen(writes);
    expect(lines).toHaveLength(6);
    expect(lines[0]).toBe(
      "run 20300101T000000Z: 2,000 rows in 4 tasks → /out; done already: 1 task, 500",
    );
    expect(lines[1]).toBe("  rows");
    expect(lines[2]).toBe("warn: the endpoint is slow");
    expect(lines[3]).toContain("800/2,000 rows");
    expect(lines[4]).toContain("8 in flight");
  });

  it("draws at most ten times a second", () => {
    const { view, writes, pass } = shown("block");
    view.onEvent(start);
    for (let done = 100; done < 400; done++) view.onEvent(progress(done));
    expect(writes).toHaveLength(1);
    pass(100);
    expect(writes).toHaveLength(2);
    view.close();
  });

  it("writes a line every ten seconds where there is no terminal", () => {
    const { view, writes, pass } = shown("lines");
    view.onEvent(start);
    view.onEvent(task);
    pass(9999);
    expect(writes).toHaveLength(1);
    view.onEvent(progress(300));
    pass(1);
    expect(writes).toHaveLength(2);
    expect(writes.join("")).not.toContain("\u001b");
    view.close();
  });

  it("draws the last state once, however often it is closed", () => {
    for (const mode of ["lines", "block"] as const) {
      const { view, writes } = shown(mode);
      view.onEvent(start);
      view.close();
      const drawn = writes.length;
      view.close();
      expect(writes).toHaveLength(drawn);
    }
  });

  it("says the same kind of row error only a few times", () => {
    const { view, writes } = shown("lines");
    for (let i = 0; i < 10; i++) {
      view.onEvent({ type: "row-error", code: "TIMEOUT", message: `row ${i}`, count: 1 });
    }
    expect(writes).toHaveLength(3);
    view.close();
  });

  it("leaves no line of a planning that led to no run", () => {
    const { view, writes } = shown("lines");
    view.onEvent({ type: "plan-progress", rows: 0, bytes: 60, totalBytes: 60 });
    view.close();
    expect(writes).toEqual([]);
  });

  it("says once which row failed, and a few times that tasks ended by one cause", () => {
    const { view, writes } = shown("lines");
    const failed: RunEvent = { type: "row-error", code: "TIMEOUT", message: "row 2", count: 1 };
    view.onEvent(failed);
    view.onEvent(failed);
    expect(writes).toEqual(["row failed: TIMEOUT: row 2\n"]);
    const error = { code: "AUTHENTICATION_FAILED", message: "no key" } as const;
    for (let task = 0; task < 10; task++) view.onEvent({ ...end("failed"), task, error });
    expect(writes).toHaveLength(1 + 3);
    view.close();
  });

  it("writes events and logs as JSON lines", () => {
    const { view, writes } = shown("json");
    view.onEvent(worker);
    view.logger.log("info", "hello", { a: 1 });
    view.close();
    expect(writes.map((text) => JSON.parse(text))).toEqual([
      { time: 0, ...worker },
      { time: 0, type: "log", level: "info", message: "hello", a: 1 },
    ]);
  });

  it("shows only warnings and errors when it is to be quiet", () => {
    const { view, writes, pass } = shown("quiet");
    view.onEvent(start);
    view.logger.log("info", "hello");
    view.logger.log("error", "no");
    pass(20_000);
    view.close();
    expect(writes).toEqual(["error: no\n"]);
  });

  it("is chosen by options and terminal", () => {
    expect(progressMode({}, true)).toBe("block");
    expect(progressMode({}, false)).toBe("lines");
    expect(progressMode({ json: true, quiet: true }, true)).toBe("json");
    expect(progressMode({ quiet: true }, true)).toBe("quiet");
  });
});

describe("batches at a provider", () => {
  const withBatches: RunEvent = {
    ...(progress(0) as RunEvent & { type: "task-progress" }),
    batches: [
      { task: 1, batch: "batch_1", state: "in_progress", requests: 300, done: 120 },
      { task: 1, state: "waiting", requests: 200, done: 0 },
    ],
  };

  it("are shown by their states while they last", () => {
    let state = initialProgress(0);
    for (const event of [start, worker, task, withBatches]) state = reduceProgress(state, event, 1);
    const text = "2 batches: 1 in_progress (120 of 300 requests), 1 waiting";
    expect(renderProgress(state, 100, 2).join("\n")).toContain(text);
    expect(renderProgressLine(state, 2)).toContain(text);
    state = reduceProgress(state, progress(50), 3);
    expect(renderProgressLine(state, 4)).not.toContain("batch");
  });
});
