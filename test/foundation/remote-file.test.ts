import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { Agent } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  downloadDispatcher,
  networkReason,
  readBody,
  requestRemoteFile,
} from "../../src/foundation/remote-file.ts";
import { serve } from "../engines/models/serve.ts";

const sha256 = "ab".repeat(32);

describe("requestRemoteFile", () => {
  it("sends the token to the first host only", async () => {
    const far = await serve((_request, response) => void response.end("file"));
    const hub = await serve((request, response) => {
      const location = request.url === "/a" ? "/b" : `${far.origin}/c`;
      response.writeHead(302, { location, "x-linked-etag": `"${sha256}"`, "x-linked-size": "4" });
      response.end();
    });
    const answer = await requestRemoteFile(
      { url: `${hub.origin}/a`, token: "secret" },
      new Agent(),
    );
    expect(await answer.body.text()).toBe("file");
    expect(hub.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer secret",
      "Bearer secret",
    ]);
    expect(far.requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    expect(answer).toMatchObject({ isFirstHost: false, linkedSha256: sha256, linkedBytes: 4 });
  });

  it("does not believe a far host's word on what the hub linked", async () => {
    const far = await serve((_request, response) => {
      response.writeHead(200, { "x-linked-etag": `"${sha256}"` }).end();
    });
    const hub = await serve((_request, response) => {
      response.writeHead(302, { location: far.origin }).end();
    });
    const answer = await requestRemoteFile({ url: hub.origin }, new Agent());
    expect(answer.linkedSha256).toBeUndefined();
  });

  it("ends a circle of redirects", async () => {
    const circle = await serve((_request, response) => {
      response.writeHead(302, { location: "/" }).end();
    });
    await expect(requestRemoteFile({ url: circle.origin }, new Agent())).rejects.toThrow(
      /more than 10/,
    );
  });
});

describe("downloadDispatcher", () => {
  /** What a proxy without a scheme is asked for when a file of a server here is fetched. */
  async function askedOf(more: Record<string, string>): Promise<(string | undefined)[]> {
    const server = await serve((_request, response) => void response.end("direct"));
    const proxy = await serve((_request, response) => void response.end("proxied"));
    const { host } = new URL(proxy.origin);
    const environment = { HTTP_PROXY: `me:50%off@${host}`, ...more };
    const times = { connectTimeoutMs: 1000, stallTimeoutMs: 1000 };
    const dispatcher = downloadDispatcher(environment, times);
    const { body } = await requestRemoteFile({ url: `${server.origin}/f` }, dispatcher);
    const text = await body.text();
    await dispatcher.destroy();
    expect(text).toBe(proxy.requests.length > 0 ? "proxied" : "direct");
    const login = `Basic ${btoa("me:50%off")}`;
    for (const { headers } of proxy.requests) expect(headers["proxy-authorization"]).toBe(login);
    return proxy.requests.map(({ url }) => url && new URL(url).pathname);
  }

  it("reads proxies as engine openai does", async () => {
    expect(await askedOf({})).toEqual(["/f"]);
    expect(await askedOf({ NO_PROXY: "127.0.0.0/8" })).toEqual([]);
    expect(await askedOf({ HTTP_PROXY: "", HTTPS_PROXY: "http://127.0.0.1:9" })).toEqual([]);
  });

  it("refuses what is not the address of a proxy", async () => {
    expect(await askedOf({ HTTP_PROXY: "socks5://x:1" }).catch((error) => error)).toMatchObject({
      code: "JOB_INVALID",
    });
  });
});

describe("networkReason", () => {
  it("tells no credentials", () => {
    expect(networkReason(new Error("proxy http://user:pass@host failed"))).toBe(
      "proxy http://host failed",
    );
  });
});

describe("readBody", () => {
  it("gives what came while nobody read, though the server has closed since", async () => {
    const content = Buffer.alloc(3_000_000, "sluice");
    const head = `HTTP/1.0 200 OK\r\ncontent-length: ${content.length}\r\n\r\n`;
    const server = createServer((socket) => {
      socket.once("data", () => socket.end(Buffer.concat([Buffer.from(head), content])));
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const connected = once(server, "connection") as Promise<[Socket]>;
    const answer = await requestRemoteFile({ url: `http://127.0.0.1:${port}/a` }, new Agent());
    const [socket] = await connected;
    if (!socket.closed) await once(socket, "close");
    const chunks: Buffer[] = [];
    await readBody(answer, (chunk) => void chunks.push(chunk));
    expect(Buffer.compare(Buffer.concat(chunks), content)).toBe(0);
  });

  it("ends with what its reader throws, or with the connection", async () => {
    const server = await serve((request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("half", () => request.url === "/torn" && request.socket.destroy());
    });
    const ask = (path: string) => requestRemoteFile({ url: server.origin + path }, new Agent());
    const refuse = () => {
      throw new Error("no more");
    };
    await expect(readBody(await ask("/a"), refuse)).rejects.toThrow("no more");
    await expect(readBody(await ask("/torn"), () => {})).rejects.toThrow();
  });
});
