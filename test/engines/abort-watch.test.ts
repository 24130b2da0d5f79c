import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { type Abortable, AbortWatch } from "../../src/engines/abort-watch.ts";

const held = (told: unknown[]) => ({ abort: (reason: unknown) => void told.push(reason) });

describe("AbortWatch", () => {
  it("tells all that are watched, by one listener", () => {
    const watch = new AbortWatch();
    const { signal, ...controller } = withAbort();
    const told: unknown[] = [];
    for (let count = 0; count < 20; count++) watch.add(signal, held(told));
    expect(getEventListeners(signal, "abort").length).toBe(1);
    controller.abort("stop");
    expect(told).toEqual(Array(20).fill("stop"));
  });

  it("tells nobody who was removed, and leaves no listener behind", () => {
    const watch = new AbortWatch();
    const { signal, ...controller } = withAbort();
    const told: unknown[] = [];
    const gone = held(told);
    watch.add(signal, gone);
    watch.remove(signal, gone);
    expect(getEventListeners(signal, "abort").length).toBe(0);
    controller.abort("stop");
    expect(told).toEqual([]);
  });

  it("tells those that are left, in whatever order the others leave", () => {
    const watch = new AbortWatch();
    const { signal, ...controller } = withAbort();
    const told: string[] = [];
    const all = ["first", "second", "third"].map(
      (name): Abortable => ({
        abort: () => void told.push(name),
      }),
    );
    for (const each of all) watch.add(signal, each);
    watch.remove(signal, all[0]!);
    watch.remove(signal, all[2]!);
    controller.abort("stop");
    expect(told).toEqual(["second"]);
  });

  it("tells at once when the signal is aborted already", () => {
    const told: unknown[] = [];
    new AbortWatch().add(AbortSignal.abort("early"), held(told));
    expect(told).toEqual(["early"]);
  });

  it("tells each once when one of them removes another", () => {
    const watch = new AbortWatch();
    const { signal, ...controller } = withAbort();
    const told: unknown[] = [];
    const second = held(told);
    watch.add(signal, {
      abort: (reason) => {
        told.push(reason);
        watch.remove(signal, second);
      },
    });
    watch.add(signal, second);
    controller.abort("stop");
    expect(told).toEqual(["stop", "stop"]);
  });

  it("tells all of all signals at once, and nobody again", () => {
    const watch = new AbortWatch();
    const both = [withAbort(), withAbort()];
    const told: unknown[] = [];
    for (const { signal } of both) watch.add(signal, held(told));
    watch.abortAll("closed");
    for (const { abort, signal } of both) {
      expect(getEventListeners(signal, "abort").length).toBe(0);
      abort("stop");
    }
    expect(told).toEqual(["closed", "closed"]);
  });
});

function withAbort() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: (reason: unknown) => controller.abort(reason) };
}
