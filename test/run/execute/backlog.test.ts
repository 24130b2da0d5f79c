import { describe, expect, it } from "vitest";
import { Backlog, maxOpenTaskMs } from "../../../src/run/execute/backlog.ts";
import { handClock } from "../../hand-clock.ts";

/** One that was told that opening took `openMs`, while rows settle at a rate. */
function backlogAt({ openMs, rowsPerMs }: { openMs: number; rowsPerMs: number }) {
  const { clock, pass } = handClock();
  let told = 0;
  const backlog = new Backlog(clock, () => told++);
  backlog.noteOpened(openMs);
  for (let step = 0; step < 20; step++) {
    for (let row = 0; row < rowsPerMs * 100; row++) backlog.noteSettled();
    pass(100);
  }
  return { backlog, told: () => told };
}

describe("Backlog", () => {
  it("wants as many rows ahead as settle while tasks are opened", () => {
    const { backlog } = backlogAt({ openMs: 200, rowsPerMs: 100 });
    expect(backlog.rowsAhead).toBeGreaterThan(35_000);
    expect(backlog.rowsAhead).toBeLessThan(45_000);
    expect(backlogAt({ openMs: 0, rowsPerMs: 100 }).backlog.rowsAhead).toBe(0);
    const hour = backlogAt({ openMs: 3_600_000, rowsPerMs: 10 }).backlog;
    expect(hour.rowsAhead).toBeLessThan(2.5 * maxOpenTaskMs * 10);
  });

  it("tells it long before the engine has room, and again as the rows get fewer", () => {
    const { backlog, told } = backlogAt({ openMs: 200, rowsPerMs: 100 });
    const wanted = backlog.rowsAhead;
    backlog.look(wanted, 64, 64);
    expect(told()).toBe(0);
    backlog.look(wanted - 1, 64, 64);
    expect(told()).toBe(1);
    for (let waiting = wanted - 2; waiting > wanted * 0.76; waiting -= 100) {
      backlog.look(waiting, 64, 64);
    }
    expect(told()).toBe(1);
    backlog.look(wanted * 0.7, 64, 64);
    expect(told()).toBe(2);
    // Another task came, and is used up in turn.
    backlog.look(wanted * 1.7, 64, 64);
    backlog.look(wanted * 0.9, 64, 64);
    expect(told()).toBe(3);
  });

  it("asks nothing ahead of a slow engine, and tells when it has room", () => {
    const { backlog, told } = backlogAt({ openMs: 200, rowsPerMs: 0.01 });
    expect(backlog.rowsAhead).toBeLessThan(8);
    for (const waiting of [100, 64, 63, 62]) backlog.look(waiting, 64, 64);
    expect(told()).toBe(1);
    backlog.look(10, 64, 64);
    expect(told()).toBe(1);
    backlog.look(0, 64, 63);
    expect(told()).toBe(2);
  });
});
