import { describe, expect, it } from "vitest";
import type { ServerBehaviour } from "../../../src/testing/fake-server.ts";
import { chatRequest } from "../engine-context.ts";
import { keptLog, never, openOver, serve } from "./openai-engine.ts";

const asks = (count: number) => Array.from({ length: count }, (_, index) => chatRequest(index));
const tooMany: ServerBehaviour = { kind: "status", status: 429 };

describe("an endpoint that has enough for a moment", () => {
  it("is not paused where it answered others just now; the request is asked again", async () => {
    const server = await serve({
      delayMs: 2,
      // One in twenty, each once.
      behave: ({ number }) => (number % 20 === 10 ? tooMany : undefined),
    });
    const { lines, logger } = keptLog();
    const engine = openOver([server], { maxInFlight: 4 }, { logger });
    const all = await Promise.all(asks(100).map((request) => engine.infer(request, never)));
    expect(all).toHaveLength(100);
    expect(server.received).toBeGreaterThan(100);
    expect(lines.filter(({ message }) => message === "the endpoint is paused")).toEqual([]);
  });

  it("delays a request that is one too many, and no other, whatever it asks for", async () => {
    const headers = { "retry-after": "30" };
    const server = await serve({
      delayMs: 5,
      behave: ({ number }) => (number === 20 ? { ...tooMany, headers } : undefined),
    });
    const { lines, logger } = keptLog();
    const engine = openOver([server], { maxInFlight: 4 }, { logger });
    const all = asks(200).map((request) => engine.infer(request, never));
    await Promise.race(all.slice(100));
    expect(server.countsByBody.size).toBeGreaterThan(50);
    await Promise.all(all);
    expect(server.received).toBe(201);
    expect(lines.filter(({ message }) => message === "the endpoint is paused")).toEqual([]);
  });

  it("is paused where it answers nobody", async () => {
    const asked: Record<string, string>[] = [{ "retry-after-ms": "5" }, {}];
    for (const headers of asked) {
      let refusals = 0;
      const server = await serve({
        behave: ({ number }) =>
          number >= 8 && refusals++ < 20 ? { ...tooMany, headers } : undefined,
      });
      const { lines, logger } = keptLog();
      const engine = openOver([server], { maxInFlight: 4 }, { logger });
      await Promise.all(asks(30).map((request) => engine.infer(request, never)));
      expect(lines.map(({ message }) => message)).toContain("the endpoint is paused");
      expect(server.received).toBe(50);
    }
  });
});

describe("the address of an endpoint", () => {
  it("is in messages without user and password, which go into a header", async () => {
    const seen: unknown[] = [];
    const server = await serve({
      behave: ({ headers }) => {
        seen.push(headers.authorization);
        return { kind: "status", status: 429, headers: { "retry-after-ms": "1" } };
      },
    });
    const { lines, logger } = keptLog();
    const baseUrl = server.baseUrl.replace("//", "//me:hush@");
    const engine = openOver([{ baseUrl }], { maxInFlight: 1, maxEndpointDownMs: 0 }, { logger });
    const error = await engine.infer(chatRequest(1), never).catch((thrown: unknown) => thrown);
    expect(seen).toEqual([`Basic ${btoa("me:hush")}`]);
    expect(String(error)).toContain(server.baseUrl);
    expect(`${error} ${JSON.stringify(lines)}`).not.toContain("hush");
  });
});
