import { access, readFile, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { download } from "../../../src/engines/models/download.ts";
import type { FetchTask } from "../../../src/engines/models/fetch-outcome.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { fetchTask, ggufBytes } from "./context.ts";
import { sendFile, serve } from "./serve.ts";

const file = ggufBytes(200_000);
const sha256 = sha256Hex(file);

async function taskOf(
  expected: FetchTask["expected"] = {},
): Promise<FetchTask & { seen: number[] }> {
  const seen: number[] = [];
  const onProgress = (bytes: number) => void seen.push(bytes);
  return { ...(await fetchTask({ expected, onProgress })), seen };
}

describe("download", () => {
  it("fetches a file and reports its bytes", async () => {
    const { origin } = await serve(sendFile(file));
    const task = await taskOf();
    const outcome = await download({ url: `${origin}/f` }, task);
    expect(outcome).toEqual({ state: "fetched", sha256, bytes: file.length });
    expect(await readFile(task.part)).toEqual(file);
    expect(task.seen.at(-1)).toBe(file.length);
    expect(task.seen).toEqual([...task.seen].sort((a, b) => a - b));
  });

  it("goes on where a connection was cut, as often as it takes", async () => {
    let cut = () => {};
    const held = (response: ServerResponse) => {
      cut = () => void response.destroy();
    };
    const { origin, requests } = await serve(sendFile(file, { hold: { bytes: 30_000, held } }));
    const task = await taskOf({ sha256, bytes: file.length });
    // Cut only when bytes have arrived: a client may drop what it holds when a connection ends.
    task.onProgress = (bytes) => {
      if (bytes % 30_000 === 0 && bytes > 0) cut();
    };
    const outcome = await download({ url: `${origin}/f` }, task);
    expect(outcome).toEqual({ state: "fetched", sha256, bytes: file.length });
    expect(requests.length).toBeGreaterThan(4);
    expect(requests[1]?.headers.range).toMatch(/^bytes=\d+-$/);
    expect(requests[1]?.headers["if-range"]).toBe('"one"');
  });

  it("goes on where an earlier process ended", async () => {
    const { origin, requests } = await serve(sendFile(file));
    const task = await taskOf({ sha256, bytes: file.length });
    await writeFile(task.part, file.subarray(0, 70_000));
    expect(await download({ url: `${origin}/f` }, task)).toMatchObject({ state: "fetched" });
    expect(requests.map(({ headers }) => headers.range)).toEqual(["bytes=70000-"]);
  });

  it("begins again when the server has another file now", async () => {
    const { origin } = await serve(sendFile(file, { etag: '"two"' }));
    const url = `${origin}/f`;
    const task = await taskOf();
    await writeFile(task.part, "of the old file");
    await writeFile(`${task.part}.json`, JSON.stringify({ url, etag: '"one"' }));
    expect(await download({ url }, task)).toMatchObject({ state: "fetched", sha256 });
  });

  it("begins again when the server sends another range than it was asked for", async () => {
    const { origin, requests } = await serve((request, response) => {
      if (request.headers.range === undefined) return sendFile(file)(request, response);
      const range = `bytes 60000-${file.length - 1}/${file.length}`;
      response.writeHead(206, { etag: '"one"', "content-range": range });
      response.end(file.subarray(60_000));
    });
    const url = `${origin}/f`;
    const task = await taskOf();
    await writeFile(task.part, file.subarray(0, 70_000));
    await writeFile(`${task.part}.json`, JSON.stringify({ url, etag: '"one"' }));
    expect(await download({ url }, task)).toMatchObject({ state: "fetched", sha256 });
    expect(requests.map(({ headers }) => headers.range)).toEqual(["bytes=70000-", undefined]);
  });

  it("does not go on with bytes of unknown origin when nothing is pinned", async () => {
    const { origin, requests } = await serve(sendFile(file));
    const task = await taskOf();
    await writeFile(task.part, file.subarray(0, 1000));
    expect(await download({ url: `${origin}/f` }, task)).toMatchObject({ sha256 });
    expect(requests[0]?.headers.range).toBeUndefined();
  });

  it("fetches anew what a torn part made wrong", async () => {
    const { origin, requests } = await serve(sendFile(file));
    const task = await taskOf({ sha256, bytes: file.length });
    await writeFile(task.part, Buffer.alloc(70_000));
    expect(await download({ url: `${origin}/f` }, task)).toMatchObject({ state: "fetched" });
    expect(requests.map(({ headers }) => headers.range)).toEqual(["bytes=70000-", undefined]);
  });

  it.each([
    ["whole", file, 1],
    ["longer than the file", Buffer.concat([file, Buffer.alloc(9)]), 1],
    ["as long, but wrong", Buffer.alloc(file.length), 2],
  ])("copes with a part that is %s", async (_case, left, asked) => {
    const { origin, requests } = await serve(sendFile(file));
    const task = await taskOf({ sha256, bytes: file.length });
    await writeFile(task.part, left);
    expect(await download({ url: `${origin}/f` }, task)).toMatchObject({ state: "fetched" });
    expect(requests).toHaveLength(asked);
  });

  it("refuses a wrong sha256 after one fetch", async () => {
    const { origin, requests } = await serve(sendFile(ggufBytes(200_000, 2)));
    const task = await taskOf({ sha256 });
    expect(await download({ url: `${origin}/f` }, task)).toMatchObject({ kind: "wrong" });
    expect(requests).toHaveLength(1);
  });

  it("leaves the note of the process that took its lock over", async () => {
    const { origin } = await serve((_, response) => void response.writeHead(404).end());
    const task = await taskOf({});
    await writeFile(`${task.part}.json`, "{}");
    const assertHeld = () => {
      throw new Error("taken over");
    };
    const outcome = download({ url: `${origin}/f` }, { ...task, assertHeld });
    await expect(outcome).rejects.toThrow("taken over");
    await access(`${task.part}.json`);
  });

  it("refuses a wrong size before the bytes come", async () => {
    const { origin } = await serve(sendFile(file));
    const task = await taskOf({ bytes: file.length - 1 });
    expect(await download({ url: `${origin}/f` }, task)).toMatchObject({
      reason: "the file has 200000 bytes, not 199999",
    });
    expect(task.seen).toEqual([]);
    await expect(access(task.part)).rejects.toThrow();
  });

  it("tries a busy server again, and gives up on one that stays so", async () => {
    let asked = 0;
    const busy = await serve((request, response) => {
      if (++asked < 3) response.writeHead(503, { "retry-after": "1" }).end();
      else sendFile(file)(request, response);
    });
    expect(await download({ url: busy.origin }, await taskOf())).toMatchObject({
      state: "fetched",
    });
    const down = await serve((_request, response) => void response.writeHead(500).end());
    expect(await download({ url: down.origin }, await taskOf())).toEqual({
      state: "failed",
      reason: "HTTP 500",
    });
    expect(down.requests).toHaveLength(3);
  });

  it("goes on after a break that takes longer than a few tries, once bytes have come", async () => {
    let asked = 0;
    let cut = () => {};
    const held = (response: ServerResponse) => {
      cut = () => void response.destroy();
    };
    const begin = sendFile(file, { hold: { bytes: 30_000, held } });
    const { origin } = await serve((request, response) => {
      asked++;
      if (asked === 1) return begin(request, response);
      if (asked < 10) return void response.writeHead(503).end();
      sendFile(file)(request, response);
    });
    const task = await taskOf();
    task.onProgress = (bytes) => {
      if (bytes === 30_000) cut();
    };
    const outcome = await download({ url: origin }, task);
    expect(outcome).toEqual({ state: "fetched", sha256, bytes: file.length });
    expect(asked).toBe(10);
  });

  it.each([
    [true, "failed", 1],
    [false, "fetched", 2],
  ])("waits for a minute, as demanded, unless another mirror has it: %s", async (...expected) => {
    const [hasOtherMirror, state, requests] = expected;
    let asked = 0;
    const { origin } = await serve((request, response) => {
      if (++asked === 1) response.writeHead(429, { "retry-after": "60" }).end();
      else sendFile(file)(request, response);
    });
    const task = { ...(await taskOf()), hasOtherMirror };
    expect(await download({ url: origin }, task)).toMatchObject({ state });
    expect(asked).toBe(requests);
  });

  it("says at once that nobody listens", async () => {
    const { origin } = await serve(() => {});
    const nobody = origin.replace(/\d+$/, "1");
    const outcome = await download({ url: nobody }, await taskOf());
    expect(outcome).toMatchObject({
      state: "failed",
      reason: expect.stringMatching(/ECONNREFUSED/),
    });
  });

  it("stops when its signal is aborted and keeps what came", async () => {
    const stop = new AbortController();
    const { origin } = await serve((_request, response) => {
      response.writeHead(200, { "content-length": file.length });
      response.write(file.subarray(0, 5000));
    });
    const task = await taskOf();
    task.context = { ...task.context, signal: stop.signal };
    task.onProgress = (bytes) => {
      if (bytes > 0) stop.abort(new Error("enough"));
    };
    await expect(download({ url: origin }, task)).rejects.toThrow("enough");
    expect((await readFile(task.part)).length).toBeGreaterThan(0);
  });
});
