import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { Transport } from "../../../src/engines/openai/transport.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { rejectionOf } from "../engine-context.ts";

const never = new AbortController().signal;
const toStop: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of toStop.splice(0)) await stop();
});

async function transportTo(server: Server, changes: { timeoutMs?: number } = {}) {
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
