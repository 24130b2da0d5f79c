import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import { Hunger } from "../../../src/run/execute/hunger.ts";
import { handClock } from "../../hand-clock.ts";

/** One that was told that opening took `openMs`, while rows settle at a rate. */
function hungerAt({ openMs, rowsPerMs }: { openMs: number; rowsPerMs: number }) {
  const { clock, pass } = handClock();
  let told = 0;
  const hunger = new Hunger(clock, () => told++);
  hunger.noteOpened(openMs);
  for (let step = 0; step < 20; step++) {
    for (let row = 0; row < rowsPerMs * 100; row++) hunger.noteSettled();
    pass(100);
  }
  return { hunger, told: () => told };
}

describe("Hunger", () => {
  it("wants as many rows ahead as settle while tasks are opened", () => {
    const { hunger } = hungerAt({ openMs: 200, rowsPerMs: 100 });
    expect(hunger.rowsAhead).toBeGreaterThan(35_000);
    expect(hunger.rowsAhead).toBeLessThan(45_000);
    expect(hungerAt({ openMs: 0, rowsPerMs: 100 }).hunger.rowsAhead).toBe(0);
    const hour = hungerAt({ openMs: 3_600_000, rowsPerMs: 10 }).hunger;
    expect(hour.rowsAhead).toBeLessThan(2.5 * limits.maxOpenTaskMs * 10);
  });

  it("tells it long before the engine has room, and again as the rows get fewer", () => {
    const { hunger, told } = hungerAt({ openMs: 200, rowsPerMs: 100 });
    const wanted = hunger.rowsAhead;
    hunger.look(wanted, 64, 64);
    expect(told()).toBe(0);
    hunger.look(wanted - 1, 64, 64);
    expect(told()).toBe(1);
    for (let waiting = wanted - 2; waiting > wanted * 0.76; waiting -= 100) {
      hunger.look(waiting, 64, 64);
    }
    expect(told()).toBe(1);
    hunger.look(wanted * 0.7, 64, 64);
    expect(told()).toBe(2);
    // Another task came, and is used up in turn.
    hunger.look(wanted * 1.7, 64, 64);
    hunger.look(wanted * 0.9, 64, 64);
    expect(told()).toBe(3);
  });

  it("asks nothing ahead of a slow engine, and tells when it has room", () => {
    const { hunger, told } = hungerAt({ openMs: 200, rowsPerMs: 0.01 });
    expect(hunger.rowsAhead).toBeLessThan(8);
    for (const waiting of [100, 64, 63, 62]) hunger.look(waiting, 64, 64);
    expect(told()).toBe(1);
    hunger.look(10, 64, 64);
    expect(told()).toBe(1);
    hunger.look(0, 64, 63);
    expect(told()).toBe(2);
  });
});
