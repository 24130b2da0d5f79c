import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { ProxyAgent, request } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { tunnelCodes, tunnelOptions } from "../../src/foundation/proxy-tunnel.ts";
import { rejectionOf } from "../engines/engine-context.ts";

/** What a request for a tunnel ends with, at a proxy that does this. */
async function through(onConnect: (server: Server) => void) {
  const server = createServer();
  onConnect(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dispatcher = new ProxyAgent({ uri, ...tunnelOptions(200) });
  onTestFinished(() => dispatcher.destroy());
  return rejectionOf(request("https://models.invalid/", { dispatcher }));
}

const refusing = (status: number) => (server: Server) =>
  void server.on("connect", (_, socket) => socket.end(`HTTP/1.1 ${status} No\r\n\r\n`));

describe("tunnelOptions", () => {
  it.each([
    [403, tunnelCodes.refused],
    [407, tunnelCodes.refused],
    [429, tunnelCodes.failed],
    [502, tunnelCodes.failed],
  ])("ends a request whose tunnel is refused by %i, with %s", async (status, code) => {
    const message = `the proxy made no tunnel, status ${status}`;
    expect(await through(refusing(status))).toMatchObject({ code, message });
  });

  it("ends a request where the proxy says nothing", async () => {
    const error = await through((server) => void server.on("connect", () => {}));
    expect(error).toMatchObject({ code: tunnelCodes.failed });
  });
});
