import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { inputStores } from "../../../src/data/sources/open.ts";
import type { SourceContext } from "../../../src/data/sources/source-store.ts";
import type { RandomReader } from "../../../src/data/storage/storage.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { limits } from "../../../src/foundation/limits.ts";
import { temporaryFolder } from "../../engines/models/context.ts";
import {
  fileListener,
  numberedText,
  type Serving,
  sourceContext,
  webServer,
} from "./web-server.ts";

const file = numberedText(3_000_000);

const inputsOf = (context: SourceContext = sourceContext()) => {
  const inputs = inputStores(context);
  const find = (...paths: string[]) =>
    inputs.expand(
      paths.map((path) => ({ path, maxLineBytes: 1000 })),
      "/",
    );
  return { ...inputs, find };
};

async function wholeOf(reader: RandomReader): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for (let offset = 0; ; offset += chunks.at(-1)!.length) {
    chunks.push(await reader.read(offset, 100_000));
    if (chunks.at(-1)!.length === 0) break;
  }
  await reader.close();
  return Buffer.concat(chunks);
}

/** A server of one file whose way of giving it may be changed. */
async function serverOf(first: Serving = {}) {
  const state = { content: file as Uint8Array, serving: first };
  const listener = fileListener(
    () => state.content,
    () => state.serving,
  );
  const server = await webServer(listener);
  return { ...server, state, url: `${server.origin}/data/rows.jsonl?v=2` };
}

describe("files of web servers", () => {
  it("are found and read by ranges, of the content that was found", async () => {
    const modified = "Sat, 21 Nov 2026 10:00:00 GMT";
    const { url, requests } = await serverOf({ headers: { "last-modified": modified } });
    const { find, open } = inputsOf();
    expect(await find(url)).toEqual([
      {
        ...{ path: url, bytes: file.length, modifiedMs: Date.parse(modified), etag: '"one"' },
        ...{ format: "jsonl", source: 0 },
      },
    ]);
    const reader = await open(url, { etag: '"one"' });
    expect(reader.bytes).toBe(file.length);
    expect(Buffer.compare(await wholeOf(reader), file)).toBe(0);
    const ranged = requests.filter(({ headers }) => headers.range !== "bytes=0-0");
    expect(ranged.length).toBeGreaterThan(1);
    expect(new Set(ranged.map(({ headers }) => headers["if-range"]))).toEqual(new Set(['"one"']));
  });

  it("that changed since are refused, before and while they are read", async () => {
    const { url, state } = await serverOf();
    const { open } = inputsOf();
    const reader = await open(url, { etag: '"one"' });
    await reader.read(0, 10);
    state.serving = { etag: '"two"' };
    await expect(reader.read(2_000_000, 10)).rejects.toMatchObject({
      code: "INPUT_CHANGED",
      message: expect.stringContaining("/data/rows.jsonl)"),
    });
    await expect(open(url, { etag: '"one"' })).rejects.toMatchObject({ code: "INPUT_CHANGED" });
  });

  it("that changed are refused where a weak tag allows no condition", async () => {
    const { url, state } = await serverOf({ etag: 'W/"one"' });
    const { open } = inputsOf();
    const reader = await open(url, { etag: 'W/"one"' });
    await reader.read(0, 10);
    state.serving = { etag: 'W/"two"' };
    await expect(reader.read(2_000_000, 10)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
  });

  it("without ETags are told apart by their dates and sizes", async () => {
    const dated = (day: number) => ({
      etag: null,
      headers: { "last-modified": `Sat, ${day} Nov 2026 10:00:00 GMT` },
    });
    const { url, state } = await serverOf(dated(14));
    const { find, open } = inputsOf();
    const [found] = await find(url);
    expect(found?.etag).toBe("Sat, 14 Nov 2026 10:00:00 GMT");
    const reader = await open(url, { etag: found?.etag });
    state.serving = dated(21);
    await expect(reader.read(5, 10)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
    state.serving = { etag: null };
    const bare = await open(url);
    state.content = file.subarray(1);
    await expect(bare.read(5, 10)).rejects.toMatchObject({ code: "INPUT_CHANGED" });
  });

  it("of servers without ranges are fetched once and read at any place", async () => {
    const { url, requests } = await serverOf({ hasRanges: false });
    const folder = await temporaryFolder();
    const { find, open } = inputsOf({ ...sourceContext(), temporaryDirectory: folder });
    expect(await find(url)).toMatchObject([{ bytes: file.length }]);
    const [one, two] = [await open(url), await open(url)];
    expect(Buffer.from(await one.read(2_999_990, 100)).toString()).toBe("002999990\n".slice(0, 10));
    expect(Buffer.compare(await wholeOf(two), file)).toBe(0);
    await one.close();
    expect(Buffer.compare(await wholeOf(await open(url)), file)).toBe(0);
    expect(requests.filter(({ headers }) => headers.range === undefined)).toHaveLength(1);
    expect(await readdir(folder)).toEqual([]);
  });

  it("of unknown length are measured by fetching them", async () => {
    const { url, requests } = await serverOf({ hasRanges: false, hasLength: false, etag: null });
    const { find, open } = inputsOf();
    expect(await find(url)).toMatchObject([{ bytes: file.length }]);
    expect(Buffer.compare(await wholeOf(await open(url)), file)).toBe(0);
    expect(requests.filter(({ headers }) => headers.range === undefined)).toHaveLength(1);
  });

  it("of rows are fetched within their bounds where the server has no ranges", async () => {
    const never = new AbortController().signal;
    const { url, state, requests } = await serverOf({ hasRanges: false });
    const folder = await temporaryFolder();
    const { copy, open } = inputsOf({ ...sourceContext(), temporaryDirectory: folder });
    const assertBytes = (bytes: number) => {
      if (bytes > 1_000_000) throw new SluiceError("FILE_UNREADABLE", `${bytes} bytes`);
    };
    const bounds = { signal: never, assertBytes };
    const tooLarge = { code: "FILE_UNREADABLE" };
    await expect(open(url, { bounds })).rejects.toMatchObject(tooLarge);
    expect(requests).toHaveLength(1);
    state.serving = { hasRanges: false, hasLength: false };
    await expect(open(url, { bounds })).rejects.toMatchObject(tooLarge);
    const copied = await copy(url, never);
    expect(Buffer.compare(await readFile(copied.path), file)).toBe(0);
    await copied.remove();
    expect(await readdir(folder)).toEqual([]);
  });

  it("of rows are fetched no longer than they are wanted", async () => {
    const stop = new AbortController();
    const { origin } = await webServer((request, response) => {
      response.writeHead(200);
      if (request.headers.range !== undefined) return void response.end("all");
      response.write("beginning");
      stop.abort(new Error("no longer wanted"));
    });
    await expect(inputsOf().copy(`${origin}/a.wav`, stop.signal)).rejects.toThrow("no longer");
  });

  it("of servers that close behind their answers are read to the end", async () => {
    const content = numberedText(10_000_000);
    const server = createServer((socket) => {
      const head = `HTTP/1.0 200 OK\r\ncontent-length: ${content.length}\r\n\r\n`;
      socket.once("data", () => socket.end(Buffer.concat([Buffer.from(head), content])));
      socket.on("error", () => {});
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    const reader = await inputsOf().open(`http://127.0.0.1:${port}/rows.jsonl`);
    expect(Buffer.compare(await wholeOf(reader), content)).toBe(0);
  });

  it("that are empty are found", async () => {
    const { url, state } = await serverOf();
    state.content = new Uint8Array();
    const { find, open } = inputsOf();
    expect(await find(url)).toMatchObject([{ bytes: 0 }]);
    expect((await wholeOf(await open(url))).length).toBe(0);
  });

  it("are read through resets, busy servers and Retry-After", async () => {
    const visits = new Map<string | undefined, number>();
    const whole = fileListener(() => file);
    const { origin } = await webServer((request, response) => {
      const { range } = request.headers;
      const visit = (visits.get(range) ?? 0) + 1;
      visits.set(range, visit);
      if (visit === 1) return void response.writeHead(503, { "retry-after": "7" }).end();
      if (visit === 2) return void response.writeHead(429).end();
      if (visit === 3) return void request.socket.destroy();
      if (visit === 4 && range !== "bytes=0-0") {
        const length = { "content-length": 100, etag: '"one"' };
        const [start, end] = range!.match(/\d+/g)!;
        const place = { "content-range": `bytes ${start}-${end}/${file.length}` };
        response.writeHead(206, { ...length, ...place });
        return void response.write("half", () => request.socket.destroy());
      }
      whole(request, response);
    });
    const context = sourceContext();
    const { open } = inputsOf(context);
    expect(Buffer.compare(await wholeOf(await open(`${origin}/a.jsonl`)), file)).toBe(0);
    expect(context.waitedMs).toContain(7000);
  });

  it("that break off without end are given up, resumable", async () => {
    const { origin, requests } = await webServer((request) => request.socket.destroy());
    await expect(inputsOf().find(`${origin}/a.jsonl`)).rejects.toMatchObject({
      code: "INPUT_UNREACHABLE",
      exitCode: 75,
    });
    expect(requests).toHaveLength(limits.maxSourceTries);
    const closed = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => closed.once("listening", resolve));
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    await expect(inputsOf().find(`http://127.0.0.1:${port}/a.jsonl`)).rejects.toMatchObject({
      code: "INPUT_UNREACHABLE",
      message: expect.stringContaining("ECONNREFUSED"),
    });
  });

  it("are found behind redirects, which are followed once", async () => {
    const far = await webServer(fileListener(() => file));
    const near = await webServer((_request, response) => {
      response.writeHead(302, { location: `${far.origin}/there` }).end();
    });
    const { find, open } = inputsOf();
    const url = `${near.origin}/rows.csv.jsonl`;
    expect(await find(url)).toMatchObject([{ path: url, bytes: file.length }]);
    const reader = await open(url);
    expect(Buffer.compare(await wholeOf(reader), file)).toBe(0);
    expect(near.requests).toHaveLength(2);
  });

  it("are asked for anew where a redirect no longer holds", async () => {
    let ticket = 1;
    const far = await webServer((request, response) => {
      if (request.url === `/${ticket}`) fileListener(() => file)(request, response);
      else response.writeHead(403).end();
    });
    const near = await webServer((_request, response) => {
      response.writeHead(302, { location: `${far.origin}/${ticket}` }).end();
    });
    const reader = await inputsOf().open(`${near.origin}/a.jsonl`);
    ticket = 2;
    expect(Buffer.compare(await wholeOf(reader), file)).toBe(0);
  });

  it.each([
    [404, "INPUT_MISSING", "check the address"],
    [410, "INPUT_MISSING", "check the address"],
    [401, "INPUT_UNREADABLE", "check who may read it"],
    [403, "INPUT_UNREADABLE", "check who may read it"],
    [418, "INPUT_UNREADABLE", "check its path"],
  ])("answered with %i are %s, and their queries shown nowhere", async (status, code, hint) => {
    const { origin } = await webServer((_request, response) => response.writeHead(status).end());
    const error = await inputsOf()
      .find(`${origin}/a.jsonl?X-Amz-Signature=secret`)
      .catch((thrown) => thrown);
    expect(error).toMatchObject({ code, hint: expect.stringContaining(hint) });
    expect(error.message).toContain("/a.jsonl");
    expect(JSON.stringify(error.toJSON())).not.toContain("secret");
  });

  it("say that a web server has no globs, and that addresses hold no passwords", async () => {
    const { origin } = await webServer((_request, response) => response.writeHead(404).end());
    await expect(inputsOf().find(`${origin}/part-*.jsonl`)).rejects.toMatchObject({
      code: "INPUT_MISSING",
      hint: expect.stringContaining("list file"),
    });
    const error = await inputsOf()
      .find(origin.replace("//", "//me:hunter2@"))
      .catch((thrown) => thrown);
    expect(error).toMatchObject({ code: "INPUT_UNREADABLE" });
    expect(error.message).not.toContain("hunter2");
  });

  it("that come compressed unasked are refused, unless that is what they are", async () => {
    const { url, origin } = await serverOf({ headers: { "content-encoding": "gzip" } });
    await expect(inputsOf().find(url)).rejects.toMatchObject({ code: "INPUT_UNREADABLE" });
    expect(await inputsOf().find(`${origin}/rows.jsonl.gz`)).toHaveLength(1);
  });

  it("are asked for through the proxy that the environment names", async () => {
    const proxy = await webServer(fileListener(() => file));
    const context = sourceContext({ HTTP_PROXY: proxy.origin, NO_PROXY: "example.org" });
    const found = await inputsOf(context).find("http://data.example.com/rows.jsonl");
    expect(found).toMatchObject([{ bytes: file.length }]);
    expect(proxy.requests[0]?.url).toBe("http://data.example.com/rows.jsonl");
  });

  it("are given up where the proxy makes no tunnel", async () => {
    const proxy = createServer((socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 403 Forbidden\r\n\r\n"));
      socket.on("error", () => {});
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void proxy.close());
    await new Promise((resolve) => proxy.once("listening", resolve));
    const { port } = proxy.address() as { port: number };
    const context = sourceContext({ HTTPS_PROXY: `http://127.0.0.1:${port}` });
    await expect(
      inputsOf(context).find("https://data.example.com/rows.jsonl"),
    ).rejects.toMatchObject({ code: "INPUT_UNREACHABLE", message: expect.stringContaining("403") });
  });
});

describe("other schemes", () => {
  it("are refused by name", async () => {
    await expect(inputsOf().find("ftp://host/a.jsonl")).rejects.toMatchObject({
      code: "UNSUPPORTED",
      hint: expect.stringContaining("hf://"),
    });
  });
});
