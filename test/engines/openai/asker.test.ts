import { describe, expect, it } from "vitest";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import type { ReceivedRequest, ServerBehaviour } from "../../../src/testing/fake-server.ts";
import { chatRequest, rejectionOf } from "../engine-context.ts";
import { asks, never, openOver, serve, status } from "./openai-engine.ts";

function answersOf(engine: ReturnType<typeof openOver>, requests: InferenceRequest[]) {
  return Promise.all(requests.map((request) => engine.infer(request, never)));
}

describe("a request to one of several endpoints", () => {
  it("is asked elsewhere where its connection broke, once", async () => {
    let broken = 0;
    const breaking = await serve({
      behave: () => ({ kind: "reset", when: broken++ % 2 === 0 ? "before-reply" : "in-reply" }),
    });
    const whole = await serve();
    const engine = openOver([breaking, whole], { maxInFlight: 8 });
    await answersOf(engine, asks(40));
    expect(whole.received).toBe(40);
    expect([...whole.countsByBody.values()]).toEqual(Array(40).fill(1));
  });

  it("is given up where the connection breaks at each of them", async () => {
    const behave = ({ body }: ReceivedRequest): ServerBehaviour | undefined =>
      body.includes("said of 3") ? { kind: "reset", when: "before-reply" } : undefined;
    const servers = [await serve({ behave }), await serve({ behave })];
    const engine = openOver(servers);
    const error = await rejectionOf(engine.infer(chatRequest(3), never));
    expect(error).toMatchObject({ code: "CONNECTION_LOST", retryable: true });
    expect(servers.map(({ received }) => received)).toEqual([1, 1]);
    await answersOf(engine, [chatRequest(4)]);
  });

  it("goes to another endpoint when it comes again after a failure", async () => {
    const failing = await serve({ behave: () => status(500) });
    const whole = await serve();
    for (const request of asks(25)) {
      const engine = openOver([failing, whole]);
      const error = await rejectionOf(engine.infer(request, never));
      if (error !== undefined) expect(error).toMatchObject({ code: "SERVER_ERROR" });
      expect((await engine.infer(request, never)).answers).toHaveLength(1);
    }
    expect(failing.received).toBeGreaterThan(0);
  });
});
