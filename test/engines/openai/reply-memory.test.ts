import { describe, expect, it } from "vitest";
import { type Incoming, ReplyMemory } from "../../../src/engines/openai/reply-memory.ts";

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

describe("ReplyMemory", () => {
  it("lets replies come as long as they are few bytes together", () => {
    const [memory, a, b] = [new ReplyMemory(100), reply(), reply()];
    memory.take(a, 60);
    memory.take(b, 40);
    expect(waiting(a, b)).toEqual([false, false]);
  });

  it("has all but the oldest wait beyond that, and never the oldest", () => {
    const [memory, a, b, c] = [new ReplyMemory(100), reply(), reply(), reply()];
    for (const each of [a, b, c]) memory.take(each, 30);
    memory.take(b, 30);
    memory.take(a, 500);
    memory.take(c, 1);
    expect(waiting(a, b, c)).toEqual([false, true, true]);
  });

  it("lets the next oldest come to its end, and all once there is room", () => {
    const [memory, a, b, c] = [new ReplyMemory(100), reply(), reply(), reply()];
    memory.take(a, 10);
    memory.take(b, 80);
    memory.take(c, 80);
    memory.take(b, 1);
    expect(waiting(a, b, c)).toEqual([false, true, true]);
    memory.release(a);
    expect(waiting(b, c)).toEqual([false, true]);
    memory.release(b);
    expect(waiting(c)).toEqual([false]);
    memory.take(c, 1000);
    expect(waiting(c)).toEqual([false]);
  });

  it("lets all come again as soon as they fit, and none that has ended", () => {
    const replies = [reply(), reply(), reply(), reply()];
    const [memory, [a, b, c, d]] = [new ReplyMemory(100), replies];
    for (const each of replies) memory.take(each, 40);
    memory.take(b!, 1);
    expect(waiting(...replies)).toEqual([false, true, true, true]);
    memory.release(b!);
    expect(waiting(b!)).toEqual([true]);
    memory.release(a!);
    expect(waiting(b!, c!, d!)).toEqual([true, false, false]);
  });

  it("does not count what is released twice, or was never counted", () => {
    const [memory, a, b] = [new ReplyMemory(100), reply(), reply()];
    memory.take(a, 90);
    memory.release(b);
    memory.release(a);
    memory.release(a);
    memory.take(a, 1);
    memory.take(b, 99);
    expect(waiting(a, b)).toEqual([false, false]);
  });
});
