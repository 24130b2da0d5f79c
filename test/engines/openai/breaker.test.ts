import { describe, expect, it } from "vitest";
import { EndpointBreaker } from "../../../src/engines/openai/breaker.ts";
import { ManualClock } from "../manual-clock.ts";

/** A breaker whose jitter is always the longest wait, and what it tells. */
function setUp(maxEndpointDownMs = 600_000, clock = new ManualClock()) {
  const lines: string[] = [];
  const told: string[] = [];
  const breaker = new EndpointBreaker({
    clock,
    random: { next: () => 1 },
    logger: { log: (level, message) => void lines.push(`${level} ${message}`) },
    endpoint: "http://127.0.0.1/v1",
    maxEndpointDownMs,
    onProbeDue: () => void told.push("probe"),
    onOpen: () => void told.push("open"),
    onDown: ({ code }) => void told.push(code),
  });
  return { breaker, clock, told, lines };
}

const refused = { message: "connect ECONNREFUSED" };

describe("EndpointBreaker", () => {
  it("is open until the endpoint fails", () => {
    const { breaker, told } = setUp();
    breaker.reached(false);
    expect([breaker.isPaused, told]).toEqual([false, []]);
  });

  it("pauses, wants one probe, and opens when that succeeds", async () => {
    const { breaker, clock, told, lines } = setUp();
    expect(breaker.fail(refused, false)).toBeUndefined();
    await clock.advance(499);
    expect([breaker.isPaused, told]).toEqual([true, []]);
    await clock.advance(1);
    expect(told).toEqual(["probe"]);
    await clock.advance(100_000);
    expect([breaker.isPaused, told]).toEqual([true, ["probe"]]);
    breaker.reached(true);
    expect([breaker.isPaused, told]).toEqual([false, ["probe", "open"]]);
    expect(lines).toEqual(["warn the endpoint is paused", "info the endpoint answers again"]);
  });

  it("waits longer after each failed probe, up to a minute", async () => {
    const { breaker, clock, told } = setUp();
    const waits: number[] = [];
    for (let isProbe = false; waits.length < 9; isProbe = true) {
      breaker.fail(refused, isProbe);
      const fromMs = clock.monotonic();
      while (told.length <= waits.length) await clock.advance(500);
      waits.push(clock.monotonic() - fromMs);
    }
    const expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000];
    expect(waits).toEqual(expected);
  });

  it("counts many failures of one outage as one", async () => {
    const { breaker, clock, told } = setUp();
    for (let count = 0; count < 64; count++) breaker.fail(refused, false);
    await clock.advance(500);
    expect(told).toEqual(["probe"]);
  });

  it("obeys Retry-After, also a straggler's that asks for more", async () => {
    const { breaker, clock, told } = setUp();
    breaker.fail({ message: "429", retryAfterMs: 5000 }, false);
    await clock.advance(1000);
    breaker.fail({ message: "429", retryAfterMs: 8000 }, false);
    await clock.advance(7999);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(["probe"]);
  });

  it("is not hurried by a straggler that asks for less, or for nothing", async () => {
    const { breaker, clock, told } = setUp();
    breaker.fail({ message: "429", retryAfterMs: 5000 }, false);
    await clock.advance(1000);
    breaker.fail({ message: "429", retryAfterMs: 8000 }, false);
    breaker.fail({ message: "429", retryAfterMs: 100 }, false);
    breaker.fail(refused, false);
    await clock.advance(7999);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(["probe"]);
  });

  it("waits as at first, once the endpoint that was given up answers again", async () => {
    const { breaker, clock, told } = setUp(1200);
    breaker.fail(refused, false);
    await clock.advance(500);
    breaker.fail(refused, true);
    await clock.advance(700);
    expect(breaker.fail(refused, true)?.code).toBe("ENDPOINT_DOWN");
    breaker.reached(false);
    told.length = 0;
    expect(breaker.fail(refused, false)).toBeUndefined();
    await clock.advance(500);
    expect(told).toEqual(["probe"]);
  });

  it("gives up after maxEndpointDownMs without a success, after a last probe", async () => {
    const { breaker, clock, told } = setUp(1200);
    breaker.fail(refused, false);
    await clock.advance(500);
    breaker.fail(refused, true);
    await clock.advance(700);
    expect(told).toEqual(["probe", "probe"]);
    const error = breaker.fail(refused, true);
    expect(error).toMatchObject({ code: "ENDPOINT_DOWN", scope: "run", exitCode: 69 });
    expect(error!.message).toContain("connect ECONNREFUSED");
    expect(told.at(-1)).toBe("ENDPOINT_DOWN");
  });

  it("gives up when Retry-After reaches beyond the time, after a last probe", async () => {
    const { breaker, clock, told } = setUp(2000);
    breaker.fail({ message: "429", retryAfterMs: 60_000 }, false);
    await clock.advance(1000);
    breaker.fail({ message: "429", retryAfterMs: 60_000 }, false);
    await clock.advance(999);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(["probe"]);
    expect(breaker.fail(refused, true)).toMatchObject({ code: "ENDPOINT_DOWN" });
    expect(told).toEqual(["probe", "ENDPOINT_DOWN"]);
  });

  it("sends the last probe where this process was stopped for a moment", async () => {
    const slow = new ManualClock();
    const { monotonic } = slow;
    // This process was not running for 5 ms after it first asked for the time.
    let reads = 0;
    slow.monotonic = () => monotonic() + (reads++ === 0 ? 0 : 5);
    const { breaker, clock, told } = setUp(2000, slow);
    breaker.fail({ message: "429", retryAfterMs: 60_000 }, false);
    await clock.advance(2500);
    expect(told).toEqual(["probe"]);
  });

  it("counts the time from the last success", async () => {
    const { breaker, clock, told } = setUp(1000);
    breaker.fail({ message: "429", retryAfterMs: 1500 }, false);
    await clock.advance(900);
    // A request that was under way when the pause began.
    breaker.reached(false);
    await clock.advance(600);
    expect(told).toEqual(["probe"]);
    expect(breaker.fail(refused, true)).toBeUndefined();
  });

  it("wants another probe when one is abandoned", async () => {
    const { breaker, clock, told } = setUp();
    breaker.fail(refused, false);
    breaker.abandon();
    expect(told).toEqual([]);
    await clock.advance(500);
    breaker.abandon();
    expect([breaker.isPaused, told]).toEqual([true, ["probe", "probe"]]);
  });

  it("tells nothing more once it is closed", async () => {
    const { breaker, clock, told } = setUp();
    breaker.fail(refused, false);
    breaker.close();
    expect(clock.timers).toBe(0);
    await clock.advance(60_000);
    expect(told).toEqual([]);
  });
});
