import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { status } from "../../src/api/inspect.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { batchPaths } from "../../src/serve/batches/batch.ts";
import type { ServeInput } from "../../src/serve/options.ts";
import { untilRequests } from "../integration/served.ts";
import { serverFolder, serverHere } from "./server-here.ts";

/**
 * A server in this process with one model, `m`; it ends with the test.
 * @param how the model is served.
 */
async function served(limits: ServeInput["limits"], model: JsonObject = {}, how: JsonObject = {}) {
  const folder = serverFolder();
  const countFile = join(folder, "asked");
  const dataDirectory = join(folder, "data");
  const server = await serverHere({
    models: { m: { model: { engine: "fake", countFile, ...model }, ...how } },
    ...{ dataDirectory, limits },
  });
  const { inference } = server.addresses;
  const post = async (path: string, body: JsonObject | FormData, headers = {}) => {
    const isForm = body instanceof FormData;
    const type = isForm ? {} : { "content-type": "application/json" };
    const response = await fetch(inference + path, {
      method: "POST",
      headers: { ...type, ...headers },
      body: isForm ? body : JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as JsonObject };
  };
  const chat = (content = "Hi", headers = {}) =>
    post("/v1/chat/completions", { model: "m", messages: [{ role: "user", content }] }, headers);
  const upload = (content: string) => {
    const form = new FormData();
    form.append("purpose", "batch");
    form.append("file", new Blob([content]), "in.jsonl");
    return post("/v1/files", form);
  };
  /** Creates a batch of this many requests. */
  const batch = async (count: number) => {
    const body = { model: "m", messages: [{ role: "user", content: "Hi" }] };
    const line = { method: "POST", url: "/v1/chat/completions", body };
    const lines = Array.from({ length: count }, (_, at) =>
      JSON.stringify({ custom_id: `r${at}`, ...line }),
    );
    const { body: file } = await upload(lines.join("\n"));
    const asked = { input_file_id: file.id!, endpoint: line.url, completion_window: "24h" };
    return (await post("/v1/batches", asked)).body;
  };
  /** Creates a batch whose one request the model has when this resolves to the run directory. */
  const rowInWork = async () => {
    const { id } = await batch(1);
    await expect.poll(() => existsSync(countFile) && asked(), { timeout: 10_000 }).toBe(1);
    return `${dataDirectory}/${batchPaths(String(id)).run}`;
  };
  const get = async (path: string) => (await fetch(inference + path)).json() as Promise<JsonObject>;
  /** Lines that the model has counted its requests with. */
  const asked = () => readFileSync(countFile, "utf8").split("\n").length - 1;
  return { server, chat, upload, batch, rowInWork, get, asked, raw: rawTo(inference) };
}

/** A connection that sends `head`; `reply` is all that comes until it is closed. */
function rawTo(address: string) {
  const { hostname, port } = new URL(address);
  return (head: string) => {
    const startMs = performance.now();
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.write(head);
    // It may be reset before all is read.
    const reply = text(socket).catch(() => "");
    const lived = reply.then(() => performance.now() - startMs);
    return { socket, reply, lived };
  };
}

const refusal = (status: number, code: string, message: RegExp) => ({
  status,
  body: { error: { code, message: expect.stringMatching(message) } },
});

const post = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
const alive = "GET /livez HTTP/1.1\r\nhost: x\r\n";

describe("limits of sizes", () => {
  it("maxBodyBytes", async () => {
    const { chat } = await served({ maxBodyBytes: 200 });
    expect(await chat("x".repeat(100))).toMatchObject({ status: 200 });
    expect(await chat("x".repeat(200))).toMatchObject(
      refusal(413, "request_too_large", /body is too large/),
    );
  });

  it("maxFileBytes", async () => {
    const { upload } = await served({ maxFileBytes: 1000, maxBodyBytes: 10 });
    expect(await upload("x".repeat(1000))).toMatchObject({ status: 200, body: { bytes: 1000 } });
    expect(await upload("x".repeat(1001))).toMatchObject(
      refusal(413, "request_too_large", /a file may have 1000 bytes/),
    );
  });

  it("maxHeaderBytes, whatever Node's own limit is", async () => {
    const [small, large] = await Promise.all([
      served({ maxHeaderBytes: 1000 }),
      served({ maxHeaderBytes: 40_000 }),
    ]);
    const withHeader = (bytes: number) =>
      `${alive}connection: close\r\nx-long: ${"y".repeat(bytes)}\r\n\r\n`;
    expect(await small.raw(withHeader(500)).reply).toMatch(/^HTTP\/1\.1 200 /);
    expect(await small.raw(withHeader(2000)).reply).toMatch(/^HTTP\/1\.1 431 /);
    expect(await large.raw(withHeader(30_000)).reply).toMatch(/^HTTP\/1\.1 200 /);
  });
});

/** What does not end at its limit runs into that of the test. */
describe("limits of times and connections", () => {
  it("requestArrivalTimeoutMs: of headers, bodies and pauses of uploads", async () => {
    const { raw } = await served({ requestArrivalTimeoutMs: 300 });
    const form = `POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\n`;
    const silent = raw("");
    const headers = raw(post);
    const body = raw(`${post}content-length: 100\r\n\r\n{`);
    const upload = raw(`${form}content-length: 100\r\n\r\n--b`);
    // Only a route that takes files reads a form piece by piece.
    const whole = raw(
      `${form.replace("/v1/files", "/predictions/m")}content-length: 100\r\n\r\n--b`,
    );
    for (const { reply } of [headers, body, whole]) expect(await reply).toMatch(/^HTTP\/1\.1 408 /);
    for (const { lived } of [silent, headers, body, upload, whole]) {
      expect(await lived).toBeGreaterThan(250);
    }
  });

  it("idleConnectionTimeoutMs: after an answer", async () => {
    const { raw } = await served({ idleConnectionTimeoutMs: 200 });
    const { reply, lived } = raw(`${alive}\r\n`);
    expect(await reply).toMatch(/^HTTP\/1\.1 200 /);
    await lived;
  });

  it("maxConnections", async () => {
    const { raw } = await served({ maxConnections: 2 });
    const held = [raw(""), raw("")];
    await Promise.all(held.map(({ socket }) => once(socket, "connect")));
    const third = raw(`${alive}\r\n`);
    expect(await third.reply).toBe("");
    for (const { socket } of held) socket.destroy();
    // Their places are free once the server has seen that they left.
    const next = () => raw(`${alive}connection: close\r\n\r\n`).reply;
    await expect.poll(next).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("requestTimeoutMs", async () => {
    const { chat } = await served({ requestTimeoutMs: 200 }, { latencyMs: 60_000 });
    expect(await chat()).toMatchObject(refusal(504, "timeout", /after 0.2 s/));
  });

  it("requestTimeoutMs and requestArrivalTimeoutMs: of a client that does not read", async () => {
    // The upload has to arrive in this time, too.
    const limits = { requestTimeoutMs: 1500, requestArrivalTimeoutMs: 700 };
    const { server, upload } = await served(limits);
    // More than the buffers of a connection hold.
    const bytes = 32 * 1024 * 1024;
    const { body: file } = await upload("x".repeat(bytes));
    const get = `GET /v1/files/${file.id}/content HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`;
    const { hostname, port } = new URL(server.addresses.inference);
    const reader = () => {
      const socket = connect(Number(port), hostname).on("error", () => {});
      onTestFinished(() => void socket.destroy());
      socket.on("data", () => {}).pause();
      socket.write(get);
      const received = new Promise<number>((resolve) =>
        socket.on("close", () => resolve(socket.bytesRead)),
      );
      return { socket, received };
    };
    const [idle, slow] = [reader(), reader()];
    for (let at = 0; at < 30; at++) {
      await pause(100);
      slow.socket.resume();
      await pause(2);
      slow.socket.pause();
    }
    for (const { socket } of [idle, slow]) socket.resume();
    expect(await idle.received).toBeLessThan(bytes);
    expect(await slow.received).toBeGreaterThan(bytes);
  });

  it("drainTimeoutMs: requests in work end with their connections", async () => {
    const { server, chat, asked } = await served({ drainTimeoutMs: 200 }, { latencyMs: 60_000 });
    const cut = expect(chat()).rejects.toThrow("fetch failed");
    await expect.poll(asked).toBe(1);
    const startMs = performance.now();
    await server.close();
    await cut;
    expect(performance.now() - startMs).toBeGreaterThan(150);
  });
});

describe("limits of a server's end", () => {
  it("batchDrainTimeoutMs: a row in work may end, and its answer is kept", async () => {
    const long = { drainTimeoutMs: 20_000, batchDrainTimeoutMs: 15_000 };
    const { server, rowInWork } = await served(long, { latencyMs: 2500 });
    const run = await rowInWork();
    await server.close();
    expect((await status(run)).run.rows).toMatchObject({ answered: 1 });
  });

  it.each([
    { batchDrainTimeoutMs: 1000, drainTimeoutMs: 30_000 },
    { batchDrainTimeoutMs: 30_000, drainTimeoutMs: 1000 },
  ])("%j end a row in work after a second", async (limits) => {
    const { server, rowInWork } = await served(limits, { latencyMs: 60_000 });
    const run = await rowInWork();
    const startMs = performance.now();
    await server.close();
    expect(performance.now() - startMs).toBeGreaterThan(900);
    expect((await status(run)).run.rows).toMatchObject({ answered: 0, journaled: 0 });
  });
});

describe("limits of the line before a model", () => {
  const slow = { latencyMs: 60_000, capacity: 1 };
  const ignored = (work: Promise<unknown>) => void work.catch(() => {});

  it.each([
    ["all models", { maxQueueSize: 1 }, {}],
    ["one model", {}, { maxQueueSize: 1 }],
  ])("maxQueueSize of %s", async (_, limits, how) => {
    const { server, chat } = await served(limits, slow, how);
    for (const waiting of [0, 1]) {
      ignored(chat());
      await untilRequests(server, "m", { inFlight: 1, waiting });
    }
    expect(await chat()).toMatchObject(
      refusal(429, "rate_limit_exceeded", /1 requests wait already/),
    );
  });

  it.each([
    ["all models", { maxQueueWaitMs: 200 }, {}],
    ["one model", {}, { maxQueueWaitMs: 200 }],
  ])("maxQueueWaitMs of %s", async (_, limits, how) => {
    const { server, chat } = await served(limits, slow, how);
    ignored(chat());
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    expect(await chat()).toMatchObject(refusal(429, "rate_limit_exceeded", /it waited 200 ms/));
    // A client may ask for less, and not for more.
    const patient = { "x-sluice-max-wait-ms": "60000" };
    expect(await chat("Hi", patient)).toMatchObject(
      refusal(429, "rate_limit_exceeded", /it waited 200 ms/),
    );
  });

  it("maxTries", async () => {
    const failing = { failures: [{ rate: 1, kind: "retryable" }] };
    const { chat, asked } = await served({ maxTries: 1 }, failing);
    expect((await chat()).status).toBe(500);
    expect(asked()).toBe(1);
  });
});

describe("limits of batches", () => {
  it("maxBatchRequests and batchWindowMs", async () => {
    const { batch, get } = await served({ maxBatchRequests: 2, batchWindowMs: 90_000 });
    const { id, created_at: from, expires_at: to } = await batch(3);
    expect(Number(to) - Number(from)).toBe(90);
    const failed = { status: "failed", errors: { data: [{ code: "too_many_tasks" }] } };
    await expect.poll(() => get(`/v1/batches/${id}`)).toMatchObject(failed);
  });

  it("maxBatchesInProgress", async () => {
    const { batch, get } = await served({ maxBatchesInProgress: 2 }, { latencyMs: 60_000 });
    for (let at = 0; at < 3; at++) await batch(1);
    const statuses = async () => {
      const { data } = (await get("/v1/batches")) as { data: JsonObject[] };
      return data.map(({ status }) => status);
    };
    const begun = async () => (await statuses()).filter((status) => status === "in_progress");
    await expect.poll(begun).toHaveLength(2);
    // The third one would have begun by now.
    await pause(300);
    expect((await statuses()).toSorted()).toEqual(["in_progress", "in_progress", "validating"]);
  });
});
