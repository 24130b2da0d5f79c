import { describe, expect, it } from "vitest";
import {
  hasProgressed,
  newErrors,
  newRunning,
  newTask,
  noteDeath,
  noteSpared,
  noteStart,
} from "../../../src/run/dispatch/dispatched-task.ts";

/** A task whose attempt `name` was given to a worker, which said that it asks these rows. */
function attemptAt(state = newTask(3), name = "a", ...announced: string[]) {
  const running = newRunning(state, 10);
  noteStart(running, name);
  running.announced = announced;
  return running;
}

describe("how a task's attempts ended", () => {
  it("is nothing where nothing was asked", () => {
    const running = newRunning(newTask(3), 10);
    noteDeath(running, 8);
    noteSpared(running);
    expect(running.state.ends).toEqual({});
    const begun = attemptAt();
    noteDeath(begun, 8);
    expect(begun.state.ends).toEqual({});
  });

  it("is a death, with the rows that may have been asked", () => {
    const state = newTask(3);
    noteDeath(attemptAt(state, "a", "40", "41-42,7"), 8);
    expect(state.ends).toEqual({ suspects: { attempt: "a", rows: "7,40-42", together: 4 } });
    // Died before it said anything: what is known of the one before it still holds.
    noteDeath(attemptAt(state, "b"), 8);
    expect(state.ends).toMatchObject({ suspects: { attempt: "a" } });
    noteDeath(attemptAt(state, "c", ""), 1);
    expect(state.ends).toEqual({ suspects: { attempt: "c", rows: "", together: 1 } });
  });

  it("is told to the next attempt as a stall where it hung", () => {
    const state = newTask(3);
    noteDeath(attemptAt(state, "a", "40"), 8, true);
    expect(state.ends.suspects).toMatchObject({ attempt: "a", stalled: true });
    noteDeath(attemptAt(state, "b", "40"), 8);
    expect(state.ends.suspects).toEqual({ attempt: "b", rows: "40", together: 4 });
  });

  it("is no death where the coordinator ended it, until the next attempt has that on file", () => {
    const state = newTask(3);
    noteDeath(attemptAt(state, "a", "40"), 8);
    const suspects = { attempt: "a", rows: "40", together: 4 };
    noteSpared(attemptAt(state, "b", "60"));
    expect(state.ends).toEqual({ suspects, spared: "b" });
    noteSpared(newRunning(state, 10));
    expect(state.ends).toEqual({ suspects, spared: "b" });
    attemptAt(state, "c");
    expect(state.ends).toEqual({ suspects });
  });
});

describe("a task", () => {
  it("got on where more rows have an outcome than when it last failed", () => {
    const running = attemptAt();
    running.state.doneAtFailure = 4;
    running.done = 4;
    expect(hasProgressed(running)).toBe(false);
    running.done = 5;
    expect(hasProgressed(running)).toBe(true);
  });

  it("tells of failed rows what no attempt told before", () => {
    const state = newTask(3);
    const told = (count: number) => {
      const errors = { TIMEOUT: { count, message: "slow" } };
      return [...newErrors(state, errors)].map((event) => event.count);
    };
    expect([told(2), told(1), told(2), told(5)]).toEqual([[2], [], [], [3]]);
  });
});
