import { describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import type { ServerBehaviour } from "../../../src/testing/fake-server.ts";
import { chatRequest, rejectionOf } from "../engine-context.ts";
import { ManualClock } from "../manual-clock.ts";
import { never, openOver, serve } from "./openai-engine.ts";

const hedge = { afterQuantile: 0.9, maxShare: 0.2 };

/** Lets the engine see how long requests usually take. */
async function warmUp(engine: Engine): Promise<void> {
  for (let index = 0; index < 20; index++) await engine.infer(chatRequest(index), never);
}

describe("a request that is slow", () => {
  it("is asked again elsewhere; the loser is aborted, and its usage not counted", async () => {
    let isSlow = false;
    const behave = () => (isSlow ? ({ kind: "hang" } as const) : undefined);
    const servers = [await serve({ behave }), await serve()];
    const engine = openOver(servers, { maxInFlight: 4, hedge: { ...hedge, maxShare: 1 } });
    await warmUp(engine);
    isSlow = true;
    const before = servers.map(({ received }) => received);
    // As many as both have room for: half of them go to the server that hangs.
    const requests = Array.from({ length: 8 }, (_, index) => chatRequest(index));
    const all = await Promise.all(requests.map((request) => engine.infer(request, never)));
    expect(all.map(({ usage }) => usage.promptTokens)).toEqual(Array(8).fill(5));
    expect(servers.map(({ received }, at) => received - before[at]!)).toEqual([4, 8]);
    while (servers[0]!.held > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  });

  it("is asked again where it began before anything was known of the others", async () => {
    const servers = [
      await serve({ behave: ({ number }) => (number === 0 ? { kind: "hang" } : undefined) }),
    ];
    const engine = openOver(servers, { maxInFlight: 4, hedge: { ...hedge, maxShare: 1 } });
    const first = engine.infer(chatRequest(100), never);
    while (servers[0]!.held < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    await warmUp(engine);
    expect((await first).answers).toHaveLength(1);
    while (servers[0]!.held > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  });

  it("is not asked twice unless the job says so", async () => {
    let isSlow = false;
    const server = await serve({ behave: () => (isSlow ? { kind: "hang" } : undefined) });
    const engine = openOver([server], { maxInFlight: 4, timeoutMs: 200 });
    await warmUp(engine);
    isSlow = true;
    expect(await rejectionOf(engine.infer(chatRequest(1), never))).toMatchObject({
      code: "TIMEOUT",
    });
    expect(server.received).toBe(21);
  });

  it("fails by the failure of the last, and leaves when its signal is aborted", async () => {
    let behaviour: ServerBehaviour | undefined;
    const server = await serve({ behave: () => behaviour });
    const engine = openOver([server], { maxInFlight: 4, timeoutMs: 100, hedge });
    await warmUp(engine);
    behaviour = { kind: "hang" };
    expect(await rejectionOf(engine.infer(chatRequest(1), never))).toMatchObject({
      code: "TIMEOUT",
    });
    expect(server.received).toBe(22);
    const controller = new AbortController();
    const left = rejectionOf(engine.infer(chatRequest(2), controller.signal));
    while (server.held < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    controller.abort("stop");
    expect(await left).toBe("stop");
    while (server.held > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    behaviour = { kind: "status", status: 400 };
    expect(await rejectionOf(engine.infer(chatRequest(3), never))).toMatchObject({
      code: "REQUEST_REFUSED",
    });
  });

  it("fails by that of the first where the second finds no room", async () => {
    let isWarm = false;
    const tooMany = { kind: "status", status: 429, headers: { "retry-after": "300" } } as const;
    const server = await serve({
      behave: ({ body }) =>
        isWarm ? (body.includes("of 7?") ? tooMany : { kind: "hang" }) : undefined,
    });
    const clock = new ManualClock();
    const changes = { maxInFlight: 4, timeoutMs: 100, hedge: { ...hedge, maxShare: 1 } };
    const engine = openOver([server], changes, { clock });
    await warmUp(engine);
    isWarm = true;
    const failed = rejectionOf(engine.infer(chatRequest(1), never));
    while (server.held < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    const controller = new AbortController();
    const held = rejectionOf(engine.infer(chatRequest(7), controller.signal));
    // What is refused beside it says that there is room for one.
    while (engine.capacity > 2) await new Promise((resolve) => setTimeout(resolve, 1));
    await clock.advance(100);
    expect(await failed).toMatchObject({ code: "TIMEOUT" });
    expect(server.received).toBe(22);
    controller.abort("stop");
    expect(await held).toBe("stop");
  });

  it("is one of a share of all, whatever happens", async () => {
    const server = await serve({ delayMs: 5 });
    const engine = openOver([server], {
      maxInFlight: 50,
      hedge: { afterQuantile: 0.01, maxShare: 0.1 },
    });
    await warmUp(engine);
    const all = Array.from({ length: 480 }, (_, index) => engine.infer(chatRequest(index), never));
    expect((await Promise.all(all)).every(({ answers }) => answers.length === 1)).toBe(true);
    expect(server.received).toBeGreaterThan(500);
    expect(server.received).toBeLessThanOrEqual(550);
  });
});
