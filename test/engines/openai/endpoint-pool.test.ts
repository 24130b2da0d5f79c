import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { EndpointPool, maxPasses } from "../../../src/engines/openai/endpoint-pool.ts";
import type { OpenaiModelOptions } from "../../../src/engines/openai/options.ts";
import { PrefixKeys } from "../../../src/engines/openai/routing/prefix-keys.ts";
import { holderOf } from "../../../src/engines/openai/routing/router.ts";
import { sleep } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { textHash } from "../../../src/foundation/hashing.ts";
import { contentText, type InferenceRequest } from "../../../src/foundation/inference.ts";
import { limits } from "../../../src/foundation/limits.ts";
import type { ReceivedRequest, ServerBehaviour } from "../../../src/testing/fake-server.ts";
import { virtualClock } from "../../fakes/virtual-clock.ts";
import { handClock } from "../../hand-clock.ts";
import { chatRequest, engineContext, rejectionOf } from "../engine-context.ts";
import { asks, keptLog, never, openOver, serve, status } from "./openai-engine.ts";

async function answersOf(engine: ReturnType<typeof openOver>, requests: InferenceRequest[]) {
  const responses = await Promise.all(requests.map((request) => engine.infer(request, never)));
  return responses.map(({ answers }) => answers[0]!.text);
}

describe("several endpoints", () => {
  it("share the requests by weight, none asked twice", async () => {
    const [light, heavy] = [await serve({ delayMs: 5 }), await serve({ delayMs: 5 })];
    const endpoints = [{ baseUrl: light.baseUrl }, { baseUrl: heavy.baseUrl, weight: 3 }];
    const engine = openOver(endpoints, { maxInFlight: 12 });
    await answersOf(engine, asks(400));
    expect(light.received + heavy.received).toBe(400);
    expect([light.mostHeld, heavy.mostHeld]).toEqual([4, 12]);
    expect(Math.abs(light.received - 100)).toBeLessThan(50);
  });

  it("have room for one request at least, however little they weigh", async () => {
    const [light, heavy] = [await serve({ delayMs: 5 }), await serve({ delayMs: 5 })];
    const endpoints = [{ baseUrl: light.baseUrl }, { baseUrl: heavy.baseUrl, weight: 100 }];
    await answersOf(openOver(endpoints, { maxInFlight: 4 }), asks(40));
    expect([light.mostHeld, heavy.mostHeld]).toEqual([1, 4]);
  });

  it("have requests of one prefix go to one of them, and keep all busy", async () => {
    const groups = 40;
    const asked = Array.from({ length: groups }, () => [0, 0, 0]);
    const servers = await Promise.all(
      [0, 1, 2].map((at) =>
        serve({
          delayMs: 3,
          behave: ({ body }) => {
            asked[Number(/document (\d+)/.exec(body)![1])]![at]!++;
            return undefined;
          },
        }),
      ),
    );
    const engine = openOver(servers, { maxInFlight: 4 });
    const requests = asks(groups * 8).map((request, at): InferenceRequest => {
      const content = `document ${at % groups} is long. `.repeat(60);
      return { ...request, messages: [{ role: "user", content: `${content}Question ${at}?` }] };
    });
    // As an executor does: never more than the engine says.
    let next = 0;
    const loop = async () => {
      for (let at = next++; at < requests.length; at = next++) {
        await engine.infer(requests[at]!, never);
      }
    };
    await Promise.all(Array.from({ length: engine.capacity }, loop));
    const together = asked.reduce((sum, places) => sum + Math.max(...places), 0);
    // By chance it would be about half of them.
    expect(together / requests.length).toBeGreaterThan(0.7);
    for (const { received } of servers) expect(received).toBeGreaterThan(40);
  });

  it("let others pass a request whose endpoint is busy, but only so often", async () => {
    const asked: string[] = [];
    const quick = await serve({ behave: ({ body }) => void asked.push(body) });
    const busy = await serve({ behave: () => ({ kind: "hang" }) });
    const engine = openOver([quick, busy], { maxInFlight: 1 });
    const places = [quick, busy].map(({ baseUrl }) => ({
      ...{ seed: textHash(baseUrl), weight: 1, inFlight: 0 },
    }));
    const heldBy = (place: number) =>
      asks(2000).filter(
        (request) => holderOf(new PrefixKeys().keyOf(request), places) === places[place],
      );
    const [busyOnes, quickOnes] = [heldBy(1), heldBy(0).slice(0, 200)];
    const controller = new AbortController();
    const stuck = rejectionOf(engine.infer(busyOnes[0]!, controller.signal));
    while (busy.held < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    const filling = engine.infer(quickOnes[0]!, never);
    const passed = engine.infer(busyOnes[1]!, never);
    const others = quickOnes.slice(1).map((request) => engine.infer(request, never));
    await Promise.all([filling, passed, ...others]);
    const place = asked.findIndex((body) =>
      body.includes(contentText(busyOnes[1]!.messages![0]!.content)),
    );
    expect(place).toBeGreaterThan(10);
    expect(place).toBeLessThanOrEqual(maxPasses + 1);
    controller.abort("stop");
    await stuck;
  });

  it("go on without one that is not there, which costs no request anything", async () => {
    const [here, gone] = [await serve(), await serve()];
    await gone.close();
    const { lines, logger } = keptLog();
    const engine = openOver([gone, here], { maxInFlight: 4 }, { logger });
    await answersOf(engine, asks(30));
    expect(here.received).toBe(30);
    expect(lines[0]).toMatchObject({
      message: "the endpoint is paused",
      facts: { endpoint: gone.baseUrl },
    });
  });

  it("ask one again that came back", async () => {
    const [here, gone] = [await serve({ delayMs: 2 }), await serve()];
    await gone.close();
    const engine = openOver([gone, here], { maxInFlight: 4 });
    await answersOf(engine, asks(5));
    const back = await serve({ port: gone.port });
    for (let round = 0; back.received === 0 && round < 500; round++) {
      await answersOf(engine, [chatRequest(round)]);
    }
    expect(back.received).toBeGreaterThan(0);
  });

  it("pause one that fails one request after the other, but never the last", async () => {
    const failing = await serve({ behave: () => status(500) });
    const whole = await serve({ delayMs: 5 });
    const { lines, logger } = keptLog();
    const engine = openOver([failing, whole], { maxInFlight: 4 }, { logger });
    const errors = await Promise.all(asks(200).map((it) => rejectionOf(engine.infer(it, never))));
    expect(lines[0]).toMatchObject({ facts: { endpoint: failing.baseUrl } });
    const failed = errors.filter((error) => error !== undefined).length;
    expect(failed).toBeLessThan(20);
    const alone = openOver([failing]);
    for (const request of asks(12)) {
      expect(await rejectionOf(alone.infer(request, never))).toMatchObject({
        code: "SERVER_ERROR",
      });
    }
  });

  it.each([
    [status(401), "AUTHENTICATION_FAILED"],
    [status(404, '{"error":{"code":"model_not_found"}}'), "MODEL_UNKNOWN"],
    [status(404), "ENDPOINT_PATH_UNKNOWN"],
  ])(
    "leave one out that answers %j, with a warning, and end when none is left",
    async (by, code) => {
      const wrong = await serve({ behave: () => by });
      const whole = await serve();
      const { lines, logger } = keptLog();
      const engine = openOver([wrong, whole], { maxInFlight: 4 }, { logger });
      await answersOf(engine, asks(30));
      expect(whole.received).toBe(30);
      expect(wrong.received).toBeLessThanOrEqual(4);
      expect(lines).toHaveLength(1);
      expect(lines[0]!.message).toBe("the endpoint is left out for now");
      expect(lines[0]!.facts.endpoint).toBe(wrong.baseUrl);
      const none = openOver([wrong, await serve({ behave: () => by })]);
      expect(await rejectionOf(none.infer(chatRequest(1), never))).toMatchObject({
        ...{ code, scope: "run" },
      });
    },
  );

  it("send one that was left out a single request after a wait that grows to a limit", async () => {
    let reply: ServerBehaviour | undefined = status(401);
    const wrong = await serve({ behave: () => reply });
    const whole = await serve({ delayMs: 5 });
    const { clock, pass } = handClock();
    const { lines, logger } = keptLog();
    const engine = openOver([wrong, whole], { maxInFlight: 4 }, { clock, logger });
    await answersOf(engine, asks(12));
    const refused = wrong.received;
    const waits = [60_000, 120_000, 240_000, 480_000, 600_000, 600_000];
    for (const [at, waitMs] of waits.entries()) {
      pass(waitMs - 1);
      await answersOf(engine, asks(12));
      expect(wrong.received).toBe(refused + at);
      pass(1);
      await answersOf(engine, asks(12));
      expect(wrong.received).toBe(refused + at + 1);
    }
    expect(lines.map(({ facts }) => facts.waitMs)).toEqual([
      ...waits,
      limits.maxExcludedEndpointMs,
    ]);
    reply = undefined;
    pass(limits.maxExcludedEndpointMs);
    for (let round = 0; round < 3; round++) await answersOf(engine, asks(12));
    expect(lines.at(-1)!.message).toBe("the endpoint answers again");
    expect(wrong.received).toBeGreaterThan(refused + waits.length + 4);
    reply = status(401);
    await answersOf(engine, asks(12));
    expect(lines.at(-1)!.facts.waitMs).toBe(limits.excludedEndpointMs);
  });

  it("end the run only when all were down for too long", async () => {
    const [first, second] = [await serve(), await serve()];
    const engine = openOver([first, second], { maxInFlight: 2, maxEndpointDownMs: 200 });
    await first.close();
    const startedMs = performance.now();
    while (performance.now() - startedMs < 400) await answersOf(engine, asks(4));
    await second.close();
    const errors = await Promise.all(asks(6).map((it) => rejectionOf(engine.infer(it, never))));
    expect(errors[0]!.message).toContain(`${first.baseUrl}, ${second.baseUrl}, 0.2 s`);
    for (const error of errors)
      expect(error).toMatchObject({ code: "ENDPOINT_DOWN", exitCode: 69 });
  });

  it("are down since the last of them is", async () => {
    const clock = virtualClock();
    const endpoints = ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"].map((baseUrl) => ({
      baseUrl,
    }));
    const options = modelOptions.parse({ engine: "openai", name: "m", endpoints });
    const pool = new EndpointPool(options as OpenaiModelOptions, engineContext({ clock }));
    const [first, second] = pool.endpoints;
    first!.breaker.fail({ message: "gone" }, false);
    expect(pool.nothingAnswersSinceMs()).toBeUndefined();
    await clock.run(sleep(clock, 30));
    second!.breaker.fail({ message: "gone" }, false);
    expect(pool.nothingAnswersSinceMs()).toBe(clock.monotonic());
    await pool.close(new SluiceError("ENGINE_DIED"));
  });

  it("keep no caller waiting for one that comes back, until it has answered", async () => {
    let reply: ServerBehaviour = status(401);
    const wrong = await serve({ behave: () => reply });
    const whole = await serve();
    const { clock, pass } = handClock();
    const engine = openOver([wrong, whole], { maxInFlight: 4, maxEndpointDownMs: 0 }, { clock });
    await answersOf(engine, asks(12));
    await whole.close();
    reply = { kind: "hang" };
    pass(limits.excludedEndpointMs);
    const [probe, ...others] = asks(6).map((it) => rejectionOf(engine.infer(it, never)));
    for (const error of await Promise.all(others)) {
      expect(error).toMatchObject({ code: "ENDPOINT_DOWN" });
    }
    await engine.close();
    await probe;
  });

  it("are not paused where they fail now and then, and answer between", async () => {
    const busy = await serve({ behave: () => ({ kind: "hang" }) });
    let requests = 0;
    const ill = await serve({ behave: () => status(++requests % 4 === 0 ? 400 : 500) });
    const { lines, logger } = keptLog();
    const engine = openOver([busy, ill], { maxInFlight: 1 }, { logger });
    const controller = new AbortController();
    const held = asks(2).map((it) => rejectionOf(engine.infer(it, controller.signal)));
    while (busy.held < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    for (const request of asks(20)) await rejectionOf(engine.infer(request, never));
    controller.abort("stop");
    await Promise.all(held);
    expect(requests).toBeGreaterThanOrEqual(20);
    expect(lines).toEqual([]);
  });

  it("wait for room only until the signal is aborted or the engine is closed", async () => {
    const servers = [await serve({ behave: () => ({ kind: "hang" }) })];
    const engine = openOver([...servers, await serve({ behave: () => ({ kind: "hang" }) })], {
      maxInFlight: 1,
    });
    const controller = new AbortController();
    const all = asks(6).map((it, at) =>
      rejectionOf(engine.infer(it, at < 4 ? controller.signal : never)),
    );
    while (servers[0]!.held < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    controller.abort("stop");
    expect(await Promise.all(all.slice(0, 4))).toEqual(Array(4).fill("stop"));
    await engine.close();
    for (const error of await Promise.all(all.slice(4))) {
      expect(error).toMatchObject({ code: "ENGINE_DIED" });
    }
  });
});

describe("keys of several endpoints", () => {
  const environment = { FIRST: "sk-of-the-first", SECOND: "sk-of-the-second" };

  it("go each to its own, and are in no error and no log line", async () => {
    const keys: unknown[] = [];
    // Each says the other's key, as a gateway that is confused may.
    const echo = (other: string) => (request: ReceivedRequest) => {
      keys.push(request.headers.authorization);
      return status(401, `${request.headers.authorization} and ${other}`);
    };
    const first = await serve({ behave: echo(environment.SECOND) });
    const second = await serve({ behave: echo(environment.FIRST) });
    const { lines, logger } = keptLog();
    const endpoints = [{ baseUrl: first.baseUrl, apiKeyEnv: "FIRST" }, { baseUrl: second.baseUrl }];
    const options = { apiKeyEnv: "SECOND", maxInFlight: 4 };
    const engine = openOver(endpoints, options, { environment, logger });
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(keys.toSorted()).toEqual(["Bearer sk-of-the-first", "Bearer sk-of-the-second"]);
    expect(error).toMatchObject({ code: "AUTHENTICATION_FAILED" });
    const told = inspect([error, lines, engine], { depth: 14, showHidden: true });
    expect(told).not.toContain("sk-of");
  });

  it("are all needed", async () => {
    const endpoints = [{ baseUrl: "http://127.0.0.1:9/v1", apiKeyEnv: "THIRD" }];
    expect(() => openOver(endpoints, {}, { environment })).toThrow(
      expect.objectContaining({ code: "ENV_MISSING" }),
    );
  });
});
