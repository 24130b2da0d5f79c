import { describe, expect, it } from "vitest";
import { EndpointBreaker } from "../../../src/engines/openai/breaker.ts";
import { rejectionOf } from "../engine-context.ts";
import { ManualClock } from "../manual-clock.ts";

const never = new AbortController().signal;

/** A breaker whose jitter is always the longest wait. */
function setUp(maxEndpointDownMs = 600_000) {
  const clock = new ManualClock();
  const lines: string[] = [];
  const breaker = new EndpointBreaker({
    clock,
    random: { next: () => 1 },
    logger: { log: (level, message) => void lines.push(`${level} ${message}`) },
    endpoint: "http://127.0.0.1/v1",
    maxEndpointDownMs,
  });
  const passed: string[] = [];
  const pass = (name: string, signal = never) =>
    breaker.pass(signal).then(
      (isProbe) => void passed.push(isProbe ? `${name} probes` : name),
      (reason) => void passed.push(`${name}: ${reason?.code ?? reason}`),
    );
  return { breaker, clock, passed, pass, lines };
}

const refused = { message: "connect ECONNREFUSED" };

describe("EndpointBreaker", () => {
  it("lets everybody through until the endpoint fails", async () => {
    const { breaker, passed, pass } = setUp();
    await pass("a");
    expect([breaker.isPaused, passed]).toEqual([false, ["a"]]);
  });

  it("pauses all, sends one probe, and lets all go when that succeeds", async () => {
    const { breaker, clock, passed, pass, lines } = setUp();
    expect(breaker.fail(refused, false)).toBeUndefined();
    for (const name of ["a", "b", "c"]) void pass(name);
    await clock.advance(499);
    expect(passed).toEqual([]);
    await clock.advance(1);
    expect(passed).toEqual(["a probes"]);
    await clock.advance(100_000);
    expect(passed).toEqual(["a probes"]);
    breaker.succeed(true);
    await clock.advance(0);
    await pass("d");
    expect(passed).toEqual(["a probes", "b", "c", "d"]);
    expect(lines).toEqual(["warn the endpoint is paused", "info the endpoint answers again"]);
  });

  it("waits longer after each failed probe, up to a minute", async () => {
    const { breaker, clock, passed, pass } = setUp();
    const waits: number[] = [];
    for (let isProbe = false; waits.length < 9; isProbe = true) {
      breaker.fail(refused, isProbe);
      void pass("a");
      const fromMs = clock.monotonic();
      while (passed.length <= waits.length) await clock.advance(500);
      waits.push(clock.monotonic() - fromMs);
    }
    const expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000];
    expect(waits).toEqual(expected);
  });

  it("counts many failures of one outage as one", async () => {
    const { breaker, clock, passed, pass } = setUp();
    for (let count = 0; count < 64; count++) breaker.fail(refused, false);
    void pass("a");
    await clock.advance(500);
    expect(passed).toEqual(["a probes"]);
  });

  it("obeys Retry-After, also a straggler's that asks for more", async () => {
    const { breaker, clock, passed, pass } = setUp();
    breaker.fail({ message: "429", retryAfterMs: 5000 }, false);
    void pass("a");
    await clock.advance(1000);
    breaker.fail({ message: "429", retryAfterMs: 8000 }, false);
    await clock.advance(7999);
    expect(passed).toEqual([]);
    await clock.advance(1);
    expect(passed).toEqual(["a probes"]);
  });

  it("tries another request after a minute, however long one was told to wait", async () => {
    const { breaker, clock, passed, pass } = setUp(86_400_000);
    breaker.fail({ message: "429", retryAfterMs: 3_600_000 }, false);
    void pass("a");
    await clock.advance(59_999);
    expect(passed).toEqual([]);
    await clock.advance(1);
    expect(passed).toEqual(["a probes"]);
  });

  it("gives up after maxEndpointDownMs without a success, after a last probe", async () => {
    const { breaker, clock, passed, pass } = setUp(1200);
    breaker.fail(refused, false);
    void pass("a");
    void pass("b");
    await clock.advance(500);
    breaker.fail(refused, true);
    void pass("a");
    await clock.advance(700);
    expect(passed).toEqual(["a probes", "b probes"]);
    const error = breaker.fail(refused, true);
    await clock.advance(0);
    expect(error).toMatchObject({ code: "ENDPOINT_DOWN", scope: "run", exitCode: 69 });
    expect(error!.message).toContain("connect ECONNREFUSED");
    expect(passed.at(-1)).toBe("a: ENDPOINT_DOWN");
  });

  it("gives up when Retry-After reaches beyond the time, after a last probe", async () => {
    const { breaker, clock, passed, pass } = setUp(2000);
    breaker.fail({ message: "429", retryAfterMs: 60_000 }, false);
    void pass("a");
    void pass("b");
    await clock.advance(1000);
    breaker.fail({ message: "429", retryAfterMs: 60_000 }, false);
    await clock.advance(999);
    expect(passed).toEqual([]);
    await clock.advance(1);
    expect(passed).toEqual(["a probes"]);
    expect(breaker.fail(refused, true)).toMatchObject({ code: "ENDPOINT_DOWN" });
    await clock.advance(0);
    expect(passed.at(-1)).toBe("b: ENDPOINT_DOWN");
  });

  it("counts the time from the last success", async () => {
    const { breaker, clock, passed, pass } = setUp(1000);
    breaker.fail({ message: "429", retryAfterMs: 1500 }, false);
    void pass("a");
    await clock.advance(900);
    // A request that was under way when the pause began.
    breaker.succeed(false);
    await clock.advance(600);
    expect(passed).toEqual(["a probes"]);
    expect(breaker.fail(refused, true)).toBeUndefined();
  });

  it("passes the probe on when it is abandoned", async () => {
    const { breaker, clock, passed, pass } = setUp();
    breaker.fail(refused, false);
    void pass("a");
    void pass("b");
    await clock.advance(500);
    breaker.abandon();
    await clock.advance(0);
    expect(passed).toEqual(["a probes", "b probes"]);
    breaker.abandon();
    await pass("c");
    expect(passed.at(-1)).toBe("c");
  });

  it("rejects a waiter with its signal's reason, and others when it is closed", async () => {
    const { breaker, clock, passed, pass } = setUp();
    const controller = new AbortController();
    breaker.fail(refused, false);
    const first = pass("a", controller.signal);
    const second = pass("b");
    controller.abort("stop");
    await first;
    breaker.close("closed");
    await second;
    expect(passed).toEqual(["a: stop", "b: closed"]);
    expect(clock.timers).toBe(0);
    expect(await rejectionOf(breaker.pass(AbortSignal.abort("late")))).toBe("late");
  });
});
