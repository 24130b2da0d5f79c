import { describe, expect, it } from "vitest";
import { sleep } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { ModelQueue, type QueueLimits, type Turn } from "../../src/serve/model-queue.ts";
import { virtualClock } from "../fakes/virtual-clock.ts";

const never = new AbortController().signal;

/** A model that takes 100 ms for each request, behind a door. */
function model(slots: number, given: Partial<QueueLimits> = {}) {
  const clock = virtualClock();
  const limits = { maxQueueSize: 1000, maxQueueWaitMs: 60_000, ...given };
  const queue = new ModelQueue(() => slots, limits, clock);
  const finished: { name: string; atMs: number }[] = [];
  const ask = async (
    name: string,
    { ms = 100, ...turn }: Partial<Turn> & { ms?: number } = {},
    signal = never,
  ) => {
    const whole: Turn = { caller: "a", cost: 10, priority: "online", ...turn };
    const leave = await queue.enter(whole, signal);
    try {
      await sleep(clock, ms, signal);
      finished.push({ name, atMs: clock.monotonic() });
    } finally {
      leave();
    }
  };
  const run = <T>(work: Promise<T>) => clock.run(work);
  return { queue, clock, run, ask, finished, names: () => finished.map(({ name }) => name) };
}

const codeOf = (error: unknown) => (error instanceof SluiceError ? error.code : error);

describe("ModelQueue", () => {
  it("lets in as many as the model computes at once, others in the order of arrival", async () => {
    const { run, ask, finished, queue } = model(2);
    const all = ["1", "2", "3", "4", "5"].map((name) => ask(name));
    expect([queue.inFlight, queue.waiting()]).toEqual([2, 3]);
    await run(Promise.all(all));
    expect(finished.map(({ name, atMs }) => `${name} ${atMs}`)).toEqual([
      "1 100",
      "2 100",
      "3 200",
      "4 200",
      "5 300",
    ]);
    expect([queue.inFlight, queue.waiting()]).toEqual([0, 0]);
  });

  it("has online requests wait for no row of a batch that has not begun", async () => {
    const { run, ask, names } = model(1);
    const rows = ["row 1", "row 2", "row 3"].map((name) =>
      ask(name, { priority: "batch", caller: "batch" }),
    );
    await run(Promise.all([...rows, ask("online")]));
    expect(names()).toEqual(["row 1", "online", "row 2", "row 3"]);
  });

  it("shares a model by the cost of requests, not by their number", async () => {
    const { run, ask, names } = model(1);
    const many = Array.from({ length: 6 }, (_, at) => ask(`a${at + 1}`, { caller: "a" }));
    const large = [1, 2].map((at) => ask(`b${at}`, { caller: "b", cost: 30 }));
    await run(Promise.all([...many, ...large]));
    // Nobody waited before a1. After 30 tokens of b it is the turn of as many of a.
    expect(names()).toEqual(["a1", "a2", "b1", "a3", "a4", "a5", "b2", "a6"]);
  });

  it("gives a caller with twice the weight twice the share", async () => {
    const { run, ask, names } = model(1);
    const first = ask("first", { caller: "c" });
    const both = [1, 2, 3, 4, 5, 6].flatMap((at) => [
      ask("a", { caller: "a", weight: 2 }),
      at <= 3 ? ask("b", { caller: "b" }) : Promise.resolve(),
    ]);
    await run(Promise.all([first, ...both]));
    const order = names().slice(1, 7);
    expect(order.filter((name) => name === "a")).toHaveLength(4);
  });

  it("does not let a caller that was away save up turns", async () => {
    const { run, ask, names, clock } = model(1);
    await run(Promise.all(Array.from({ length: 20 }, () => ask("early", { caller: "a" }))));
    await run(sleep(clock, 10_000));
    const order = names().length;
    const all = Array.from({ length: 3 }, () => [
      ask("a", { caller: "a" }),
      ask("b", { caller: "b" }),
    ]);
    await run(Promise.all(all.flat()));
    expect(names().slice(order)).toEqual(["a", "b", "a", "b", "a", "b"]);
  });

  it("charges a caller for nothing that left the line before its turn", async () => {
    const { run, ask, names } = model(1);
    const first = ask("first", { caller: "c" });
    const leaving = new AbortController();
    const left = Array.from({ length: 100 }, () =>
      ask("left", { caller: "a" }, leaving.signal).catch(() => {}),
    );
    const others = Array.from({ length: 4 }, () => ask("b", { caller: "b" }));
    leaving.abort("gone");
    await run(Promise.all(left));
    await run(Promise.all([first, ...others, ask("a", { caller: "a" })]));
    expect(names().indexOf("a")).toBeLessThan(3);
  });

  it("foretells the wait by the speed of what was done, not by what takes longer", async () => {
    const { run, ask, names, queue, clock } = model(1);
    await run(Promise.all(Array.from({ length: 10 }, () => ask("short"))));
    const long = ask("long", { ms: 120_000 });
    await run(sleep(clock, 100_000));
    // By its place it would have its turn in 100 ms; in fact it waits for 20 s.
    const next = ask("next");
    expect(queue.waiting()).toBe(1);
    await run(Promise.all([long, next]));
    expect(names().slice(-2)).toEqual(["long", "next"]);
    // Now the speed is known to be another: 10 in 120 s, more or less.
    const slow = ask("slow", { ms: 1000 });
    const behind = ask("behind");
    const refused = (await run(ask("refused").catch((error: unknown) => error))) as SluiceError;
    expect(codeOf(refused)).toBe("QUEUE_FULL");
    expect(refused.retryAfterMs).toBe(60_000);
    await run(Promise.all([slow, behind]));
  });

  it("lets no online request wait longer than others may, but rows", async () => {
    const { run, ask, clock, names } = model(1, { maxQueueWaitMs: 200 });
    const long = ask("long", { ms: 1000 });
    const late = ask("late", { maxWaitMs: 60_000 }).catch(codeOf);
    const row = ask("row", { priority: "batch", maxWaitMs: Number.POSITIVE_INFINITY });
    expect(await run(late)).toBe("DEADLINE_EXCEEDED");
    expect(clock.monotonic()).toBe(200);
    await run(Promise.all([long, row]));
    expect(names()).toEqual(["long", "row"]);
  });

  it("lets a row of a batch wait as long as its batch has time, and no longer", async () => {
    const { run, ask, clock } = model(1);
    const long = ask("long", { ms: 1000 });
    const row = ask("row", { priority: "batch", maxWaitMs: 300 }).catch(codeOf);
    expect(await run(row)).toBe("DEADLINE_EXCEEDED");
    expect(clock.monotonic()).toBe(300);
    await run(long);
  });

  it("leaves no timer behind, which would keep a server from its end", async () => {
    const { run, ask, clock } = model(1);
    await run(Promise.all([ask("1"), ask("2")]));
    await expect(run(new Promise(() => {}))).rejects.toThrow();
    expect(clock.monotonic()).toBe(200);
  });

  it.each([
    [100, ["new", "caller 0"]],
    // Each caller that is remembered costs time at each turn.
    [1000, ["caller 0", "new"]],
  ])("remembers what callers got, but not of any number: %i", async (callers, order) => {
    const { run, ask, names } = model(1);
    const inLine = (...waiting: string[]) =>
      run(Promise.all(["in work", ...waiting].map((caller) => ask(caller, { caller }))));
    for (let at = 0; at < callers; at++) await inLine(`caller ${at}`);
    await inLine("caller 0", "new");
    expect(names().slice(-2)).toEqual(order);
  });

  it("refuses at once beyond its queue, and beyond the wait that its speed foretells", async () => {
    const full = model(1, { maxQueueSize: 2 });
    const held = ["1", "2", "3"].map((name) => full.ask(name));
    const refusal = await full.run(full.ask("4").catch((error: unknown) => error));
    expect(codeOf(refusal)).toBe("QUEUE_FULL");
    expect((refusal as SluiceError).retryAfterMs).toBeGreaterThanOrEqual(1000);
    await full.run(Promise.all(held));

    const slow = model(1, { maxQueueWaitMs: 450 });
    await slow.run(slow.ask("measured"));
    const asked = Array.from({ length: 10 }, (_, at) => slow.ask(String(at)));
    const outcomes = await slow.run(Promise.allSettled(asked));
    const refused = outcomes.filter(({ status }) => status === "rejected");
    expect(refused.map((each) => codeOf((each as PromiseRejectedResult).reason))).toEqual(
      Array.from({ length: 5 }, () => "QUEUE_FULL"),
    );
    expect(slow.finished.at(-1)!.atMs).toBeLessThanOrEqual(100 + 450 + 100);
  });

  it("rejects a request that waited longer than it may, or whose caller has left", async () => {
    const { run, ask, queue, names } = model(1);
    const leaving = new AbortController();
    const first = ask("1");
    const late = ask("2", { maxWaitMs: 50 }).catch(codeOf);
    const left = ask("3", {}, leaving.signal).catch(String);
    const last = ask("4");
    leaving.abort("gone");
    expect(await run(left)).toBe("gone");
    expect(await run(late)).toBe("DEADLINE_EXCEEDED");
    expect(queue.waiting()).toBe(1);
    await run(Promise.all([first, last]));
    expect(names()).toEqual(["1", "4"]);
  });

  it("lets nothing in beside a request that must be alone", async () => {
    const { run, ask, finished } = model(2);
    const all = [ask("1"), ask("alone", { isAlone: true }), ask("2"), ask("3")];
    await run(Promise.all(all));
    const times = finished.map(({ name, atMs }) => `${name} ${atMs}`);
    expect(times).toEqual(["1 100", "alone 200", "2 300", "3 300"]);
  });

  it("goes on at once when a request leaves the line that had to be alone", async () => {
    const { run, ask, finished } = model(3);
    const leaving = new AbortController();
    const first = ask("1", { ms: 1000 });
    const alone = ask("alone", { isAlone: true }, leaving.signal).catch(String);
    const others = [ask("2"), ask("3")];
    leaving.abort("gone");
    expect(await run(alone)).toBe("gone");
    await run(Promise.all([first, ...others]));
    const times = finished.map(({ name, atMs }) => `${name} ${atMs}`);
    expect(times).toEqual(["2 100", "3 100", "1 1000"]);
  });

  it("frees the place of a request that fails or is aborted in work", async () => {
    const { run, ask, queue } = model(1);
    const leaving = new AbortController();
    const first = ask("1", {}, leaving.signal).catch(String);
    const second = ask("2");
    leaving.abort("gone");
    expect(await run(first)).toBe("gone");
    await run(second);
    expect(queue.inFlight).toBe(0);
  });

  it("refuses those that wait and those that come once it is closed", async () => {
    const { run, ask, queue, names } = model(1);
    const first = ask("1");
    const second = ask("2").catch(codeOf);
    queue.close(new SluiceError("SERVER_STOPPING"));
    expect(await run(second)).toBe("SERVER_STOPPING");
    expect(await run(ask("3").catch(codeOf))).toBe("SERVER_STOPPING");
    await run(first);
    expect(names()).toEqual(["1"]);
  });
});
