import { describe, expect, it } from "vitest";
import { basicCredentials } from "../../../src/foundation/proxy.ts";
import type { ServerBehaviour } from "../../../src/testing/fake-server.ts";
import { chatRequest } from "../engine-context.ts";
import { asks, keptLog, never, openOver, serve } from "./openai-engine.ts";

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

describe("a request that no body can be made of", () => {
  it("fails alone, and gives its place back", async () => {
    const engine = openOver([await serve()], { maxInFlight: 1, structuredOutput: "grammar" });
    const source = `${"a".repeat(60)}!?b`;
    const slot = { name: "word", source, orElse: "none", maxWords: 3, pattern: "(\\w+\\s?)+$" };
    const slottedLine = { line: "word={word}", slots: [slot] };
    const [first, second] = asks(2);
    const slow = engine.infer({ ...first!, slottedLine }, never);
    await expect(slow).rejects.toMatchObject({ code: "PATTERN_TOO_SLOW" });
    expect((await engine.infer(second!, never)).answers).toHaveLength(1);
  });
});

describe("a Retry-After without end", () => {
  const freeze: ServerBehaviour = { ...tooMany, headers: { "retry-after": "99999999" } };

  it("delays the refused request; another one finds out that the rest is answered", async () => {
    const bodies: string[] = [];
    const server = await serve({
      behave: ({ number, body }) => {
        bodies.push(body);
        return number === 0 ? freeze : undefined;
      },
    });
    const engine = openOver([server], { maxInFlight: 1, maxEndpointDownMs: 200 });
    const all = asks(20).map((request) => engine.infer(request, never));
    expect(await Promise.all(all)).toHaveLength(20);
    expect(server.received).toBe(21);
    expect(bodies[1]).not.toBe(bodies[0]);
  });

  it("lets another request take the refused one's place while it waits", async () => {
    const server = await serve({ behave: ({ number }) => (number === 0 ? freeze : undefined) });
    const engine = openOver([server], { maxInFlight: 1, maxEndpointDownMs: 60_000 });
    const stop = new AbortController();
    const first = engine.infer(chatRequest(0), stop.signal).catch((reason: unknown) => reason);
    while (engine.capacity === 1) await new Promise((resolve) => setTimeout(resolve, 5));
    stop.abort("stopped");
    expect(await first).toBe("stopped");
    expect(engine.capacity).toBe(1);
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

  it("may have any sign in its password, no form of which is told", async () => {
    const seen: unknown[] = [];
    const server = await serve({
      behave({ headers }) {
        seen.push(headers.authorization);
        const message = `not with p@ss-word%off, nor ${headers.authorization}`;
        return { kind: "status", status: 400, body: JSON.stringify({ error: { message } }) };
      },
    });
    const plain = "p@ss-word%off";
    const baseUrl = server.baseUrl.replace("//", "//me:p%40ss-word%25off@");
    const engine = openOver([{ baseUrl }], {}, {});
    const error = await engine.infer(chatRequest(1), never).catch((thrown: unknown) => thrown);
    expect(seen).toEqual([`Basic ${btoa(`me:${plain}`)}`]);
    expect(String(error)).not.toContain(plain);
    expect(String(error)).not.toContain(btoa(`me:${plain}`));
    expect(basicCredentials(new URL("http://me:50%off@x/"))).toBe(`Basic ${btoa("me:50%off")}`);
  });
});
