import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { json } from "node:stream/consumers";
import { finished, pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import { toFile } from "openai";
import { describe, expect, it } from "vitest";
import { servedOnce, serveFolder, startServe } from "./served.ts";
import { clientOf, fake, url } from "./served-batches.ts";

describe("files", () => {
  it("may arrive slowly, but not stand still; other bodies may not", async () => {
    const server = await startServe(serveFolder(), {
      models: fake(),
      limits: { requestArrivalTimeoutMs: 5000 },
    });
    const { host, hostname, port } = new URL(server.baseUrl);
    /** Sends pieces until the connection ends: how many, and the first line of the reply. */
    const sent = async (
      path: string,
      type: string,
      pieces: readonly string[],
      pauseMs: number,
      connection = "close",
    ) => {
      const length = pieces.join("").length;
      const socket = connect(Number(port), hostname);
      let reply = "";
      socket.on("data", (chunk) => {
        reply += chunk;
      });
      // It may be reset before all is sent.
      const closed = finished(socket).catch(() => {});
      const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: ${connection}\r\n`;
      socket.write(`${head}content-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`);
      let count = 0;
      for (const piece of pieces) {
        if (socket.destroyed) break;
        socket.write(piece);
        count++;
        await pause(pauseMs);
      }
      await closed;
      return { count, status: reply.split("\r\n")[0] };
    };
    const type = "multipart/form-data; boundary=b";
    const name = (field: string) => `--b\r\ncontent-disposition: form-data; name="${field}"`;
    const pieces = [
      `${name("purpose")}\r\n\r\nuser_data\r\n`,
      `${name("file")}; filename="a.txt"\r\n\r\nA`,
      ...["B", "C", "D", "E", "F", "G", "H", "\r\n--b--\r\n"],
    ];
    const chat = ['{"model":', '"m"', "}"];
    // For two minutes.
    const refusable = Array.from({ length: 240 }, () => pieces[0]!);
    const [slow, still, refused, other] = await Promise.all([
      sent("/v1/files", type, pieces, 600),
      sent("/v1/files", type, pieces, 6000),
      sent(url, type, refusable, 500, "keep-alive"),
      sent(url, "application/json", chat, 6000),
    ]);
    expect(slow).toEqual({ count: pieces.length, status: "HTTP/1.1 200 OK" });
    const [file] = (await clientOf(server).files.list()).data;
    expect(file!.bytes).toBe(8);
    expect(still.status).not.toContain("200");
    // A form that is refused at once has no more time than others: not as long as it takes.
    expect(refused.count).toBeLessThan(refusable.length);
    expect(other.status).toContain("408");
  });

  it("are refused where they are too large, broken, or not of this server", async () => {
    const folder = serveFolder();
    const server = await startServe(folder, {
      models: fake(),
      limits: { maxFileBytes: 100_000, maxBodyBytes: 1000 },
    });
    const client = clientOf(server);
    const upload = async (bytes: number) =>
      client.files.create({
        file: await toFile(Buffer.alloc(bytes, "a"), "a.jsonl"),
        purpose: "batch",
      });
    await expect(upload(1_000_000)).rejects.toMatchObject({
      ...{ status: 413, type: "invalid_request_error", code: "request_too_large" },
    });
    await expect(upload(0)).rejects.toMatchObject({ status: 400 });
    const file = await upload(99_000);
    const post = async (body: string, type: string) => {
      const headers = { "content-type": type };
      const reply = await fetch(`${server.baseUrl}/files`, { method: "POST", headers, body });
      const { error } = (await reply.json()) as { error: { type: string } };
      return [reply.status, error.type];
    };
    const part = (name: string, more: string) =>
      `--b\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\nx\r\n`;
    const form = "multipart/form-data; boundary=b";
    for (const [body, type] of [
      ["{}", "application/json"],
      ["nothing", "multipart/form-data"],
      [part("file", '; filename="a.jsonl"'), form],
      [`${part("purpose", "")}--b--\r\n`, form],
      [`${part("file", '; filename="a.jsonl"')}${part("purpose", "")}--b--\r\n`, form],
    ] as const)
      expect(await post(body, type), body).toEqual([400, "invalid_request_error"]);
    for (const id of ["..%2f..%2fserve.yaml", "file-..%2f..%2fserve", `${file.id}%00`, "file-1"]) {
      for (const path of [id, `${id}/content`]) {
        const reply = await fetch(`${server.baseUrl}/files/${path}`);
        expect([reply.status, path]).toEqual([404, path]);
      }
      const reply = await fetch(`${server.baseUrl}/batches/${id}/manifest`);
      expect(reply.status).toBe(404);
    }
    const listed = await client.files.list();
    expect(listed.data.map((each) => each.id)).toEqual([file.id]);
  });

  const plain = servedOnce({ models: fake() });

  it("are read whole or in part", async () => {
    const client = clientOf(await plain());
    const text = Array.from({ length: 200_000 }, (_, at) => `${at}\n`).join("");
    const file = await client.files.create({
      ...{ file: await toFile(Buffer.from(text), "../ä b.txt"), purpose: "user_data" },
    });
    expect(file.filename).toBe("ä b.txt");
    const content = `${client.baseURL}/files/${file.id}/content`;
    const whole = await fetch(content);
    expect(await whole.text()).toBe(text);
    expect(whole.headers.get("content-type")).toBe("application/octet-stream");
    const part = async (range: string) => {
      const reply = await fetch(content, { headers: { range } });
      return [reply.status, reply.headers.get("content-range"), await reply.text()];
    };
    const all = text.length;
    expect(await part("bytes=2-5")).toEqual([206, `bytes 2-5/${all}`, text.slice(2, 6)]);
    expect(await part("bytes=-4")).toEqual([206, `bytes ${all - 4}-${all - 1}/${all}`, "999\n"]);
    expect((await part(`bytes=${all}-`))[0]).toBe(416);
    expect((await part("bytes=5-2"))[0]).toBe(200);
  });

  it("of any size take little memory", async (context) => {
    context.skip(process.platform !== "linux", "memory of a process is read from /proc");
    const server = await plain();
    const most = () => {
      const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
      return 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]);
    };
    const before = most();
    const bytes = 200_000_000;
    const field = (name: string) => `\r\n--b\r\ncontent-disposition: form-data; name="${name}"`;
    async function* form() {
      yield `${field("purpose")}\r\n\r\nuser_data${field("file")}; filename="a"\r\n\r\n`;
      const chunk = Buffer.alloc(100_000, "a");
      for (let sent = 0; sent < bytes; sent += chunk.length) yield chunk;
      yield "\r\n--b--\r\n";
    }
    const sent = request(`${server.baseUrl}/files`, {
      ...{ method: "POST", headers: { "content-type": "multipart/form-data; boundary=b" } },
    });
    const [[reply]] = await Promise.all([
      once(sent, "response") as Promise<[IncomingMessage]>,
      pipeline(form, sent),
    ]);
    expect(await json(reply)).toMatchObject({ bytes });
    const { id } = (await clientOf(server).files.list()).data[0]!;
    let received = 0;
    const content = await fetch(`${server.baseUrl}/files/${id}/content`);
    for await (const chunk of content.body!) received += chunk.length;
    expect(received).toBe(bytes);
    expect(most() - before).toBeLessThan(0.7 * bytes);
    await clientOf(server).files.delete(id);
  });
});
