import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ReplyMemory } from "../../../src/engines/openai/reply-memory.ts";
import { Transport } from "../../../src/engines/openai/transport.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { rejectionOf } from "../engine-context.ts";

const never = new AbortController().signal;
const toStop: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of toStop.splice(0)) await stop();
});

type Changes = Partial<ConstructorParameters<typeof Transport>[0]>;

async function transportTo(server: Server, changes: Changes = {}) {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const transport = new Transport({
    clock: systemClock,
    environment: {},
    address: new URL(`http://127.0.0.1:${port}`),
    headers: {},
    maxConnections: 2,
    timeoutMs: 5000,
    maxResponseBytes: 1000,
    ...changes,
  });
  toStop.push(
    () => transport.close(new Error("closed")),
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return transport;
}

describe("Transport", () => {
  it("puts a reply together from its pieces, characters cut in two included", async () => {
    const bytes = Buffer.from('{"text":"größer"}');
    const server = createServer((_, response) => {
      response.write(bytes.subarray(0, 12));
      setTimeout(() => response.end(bytes.subarray(12)), 10);
    });
    const reply = await (await transportTo(server)).post("/", "{}", never);
    expect(reply).toMatchObject({ status: 200, text: '{"text":"größer"}' });
  });

  it("refuses a reply that is too large", async () => {
    const server = createServer((_, response) => response.end("x".repeat(2000)));
    const error = await rejectionOf((await transportTo(server)).post("/", "{}", never));
    expect(error).toMatchObject({ name: "TransportError", kind: "garbled" });
  });

  it("gives every one of many large replies, of which few bytes may be held at once", async () => {
    const size = 1_000_000;
    const server = createServer((request, response) => {
      request.resume();
      response.end("x".repeat(size));
    });
    const transport = await transportTo(server, {
      ...{ maxConnections: 8, timeoutMs: 15_000, maxResponseBytes: size },
      replyMemory: new ReplyMemory(100_000),
    });
    const asked = Array.from({ length: 24 }, () => transport.post("/", "{}", never));
    const replies = await Promise.all(asked);
    expect(replies.map(({ text }) => text.length)).toEqual(replies.map(() => size));
  });

  it("never takes what is no UTF-8 for text, but reads faults as far as they can be", async () => {
    const latin1 = Buffer.from('{"text":"gr\xf6\xdfer"}', "latin1");
    const server = createServer((request, response) => {
      response.statusCode = request.url === "/fault" ? 500 : 200;
      response.end(request.url === "/marked" ? '{"text":"gr\uFFFD"}' : latin1);
    });
    const transport = await transportTo(server);
    const error = await rejectionOf(transport.post("/", "{}", never));
    expect(error).toMatchObject({ kind: "garbled", message: "the reply is not UTF-8 text" });
    expect((await transport.post("/marked", "{}", never)).text).toBe('{"text":"gr\uFFFD"}');
    expect((await transport.post("/fault", "{}", never)).text).toContain('{"text":"gr');
  });

  it("reads past a 100 Continue that it did not ask for", async () => {
    const server = createServer((_, response) => {
      response.writeContinue();
      response.end("{}");
    });
    expect(await (await transportTo(server)).post("/", "{}", never)).toMatchObject({ text: "{}" });
  });

  it("counts the whole reply into the time, though bytes keep coming", async () => {
    const server = createServer((_, response) => {
      const drip = setInterval(() => response.write(" "), 10);
      response.on("close", () => clearInterval(drip));
    });
    const transport = await transportTo(server, { timeoutMs: 100 });
    const error = await rejectionOf(transport.post("/", "{}", never));
    expect(error).toMatchObject({ name: "TransportError", kind: "timeout" });
  });

  it("takes what is no HTTP as garbled", async () => {
    const server = createServer((request) => request.socket.end("220 mail ready\r\n\r\n"));
    const error = await rejectionOf((await transportTo(server)).post("/", "{}", never));
    expect(error).toMatchObject({ name: "TransportError", kind: "garbled" });
  });

  it("does not take a fault of its caller for a fault of the endpoint", async () => {
    const transport = await transportTo(createServer());
    const error = await rejectionOf(transport.post("no slash", "{}", never));
    expect(error!.name).not.toBe("TransportError");
  });
});
