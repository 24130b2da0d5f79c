import { describe, expect, it } from "vitest";
import { type Incoming, ReplyBudget } from "../../../src/engines/openai/reply-budget.ts";

/** A reply that notes whether it is made to wait. */
function reply(): Incoming & { isWaiting: boolean } {
  const it = {
    isWaiting: false,
    pause() {
      it.isWaiting = true;
    },
    resume() {
      it.isWaiting = false;
    },
  };
  return it;
}

const waiting = (...replies: { isWaiting: boolean }[]) => replies.map(({ isWaiting }) => isWaiting);

describe("ReplyBudget", () => {
  it("lets replies come as long as they are few bytes together", () => {
    const [budget, a, b] = [new ReplyBudget(100), reply(), reply()];
    budget.take(a, 60);
    budget.take(b, 40);
    expect(waiting(a, b)).toEqual([false, false]);
  });

  it("has all but the oldest wait beyond that, and never the oldest", () => {
    const [budget, a, b, c] = [new ReplyBudget(100), reply(), reply(), reply()];
    for (const each of [a, b, c]) budget.take(each, 30);
    budget.take(b, 30);
    budget.take(a, 500);
    budget.take(c, 1);
    expect(waiting(a, b, c)).toEqual([false, true, true]);
  });

  it("lets the next oldest come to its end, and all once there is room", () => {
    const [budget, a, b, c] = [new ReplyBudget(100), reply(), reply(), reply()];
    budget.take(a, 10);
    budget.take(b, 80);
    budget.take(c, 80);
    budget.take(b, 1);
    expect(waiting(a, b, c)).toEqual([false, true, true]);
    budget.release(a);
    expect(waiting(b, c)).toEqual([false, true]);
    budget.release(b);
    expect(waiting(c)).toEqual([false]);
    budget.take(c, 1000);
    expect(waiting(c)).toEqual([false]);
  });

  it("does not count what is released twice, or was never counted", () => {
    const [budget, a, b] = [new ReplyBudget(100), reply(), reply()];
    budget.take(a, 90);
    budget.release(b);
    budget.release(a);
    budget.release(a);
    budget.take(a, 1);
    budget.take(b, 99);
    expect(waiting(a, b)).toEqual([false, false]);
  });
});
