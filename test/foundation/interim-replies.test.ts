import { createServer, type Socket } from "node:net";
import { Pool } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { connectorWithoutInterim } from "../../src/foundation/interim-replies.ts";

const final = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const interim = "HTTP/1.1 100 Continue\r\n\r\n";

/** A pool of one connection to a server that answers each request by `answer`. */
async function poolTo(answer: (socket: Socket) => Promise<void> | void) {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("data", () => void answer(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const connect = connectorWithoutInterim({ timeout: 5000 });
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 1, connect });
  onTestFinished(async () => {
    await pool.destroy();
    server.close();
  });
  return async () => {
    const { statusCode, body } = await pool.request({ path: "/", method: "POST", body: "{}" });
    return [statusCode, await body.text()];
  };
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

describe("a 100 Continue that nobody asked for", () => {
  it.each([
    ["once", interim + final],
    ["three times", interim + interim + interim + final],
    ["with fields", `HTTP/1.1 100 Continue\r\nserver: x\r\ndate: now\r\n\r\n${final}`],
    ["without a reason, in HTTP/1.0", `HTTP/1.0 100\r\n\r\n${final}`],
    ["never", final],
  ])("is dropped before each reply: %s", async (_, text) => {
    const ask = await poolTo((socket) => void socket.write(text));
    for (let request = 0; request < 3; request++) expect(await ask()).toEqual([200, "ok"]);
  });

  it("is dropped wherever it is cut", async () => {
    const text = interim + interim + final;
    for (let cut = 1; cut < text.length; cut += 5) {
      const ask = await poolTo(async (socket) => {
        socket.write(text.slice(0, cut));
        await soon();
        socket.write(text.slice(cut));
      });
      expect(await ask()).toEqual([200, "ok"]);
    }
  });

  it("stays where it is a reply's content, and other replies before the last one", async () => {
    const early = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    const body = `${interim}${final}`;
    const ask = await poolTo((socket) => {
      socket.write(`${early}HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    });
    expect(await ask()).toEqual([200, body]);
  });

  it("without anything behind it is a connection that ended", async () => {
    for (const text of [
      interim,
      interim.slice(0, 20),
      "HTTP/1",
      `HTTP/1.1 100 ${"x".repeat(40_000)}`,
    ]) {
      const ask = await poolTo((socket) => void socket.end(text));
      await expect(ask()).rejects.toThrow();
    }
  });
});
