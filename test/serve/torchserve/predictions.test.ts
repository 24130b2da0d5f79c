import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Logger } from "../../../src/foundation/logger.ts";
import { serveSchema } from "../../../src/serve/options.ts";
import { type Server, startServer } from "../../../src/serve/server.ts";
import { writeArchive } from "../../../src/serve/torchserve/archive.ts";
import { manifestSchema } from "../../../src/serve/torchserve/archive-options.ts";
import { serverContext, serverFolder, serverHere } from "../server-here.ts";

type Body = NonNullable<RequestInit["body"]>;

const module = `
export const predict = (batch) => batch.map(({ row }) => (row.boom ? new Error("boom") : { row }));
`;

describe("predictions", () => {
  const folder = mkdtempSync(join(tmpdir(), "predictions-"));
  let server: Server;
  const logged: string[] = [];

  beforeAll(async () => {
    writeFileSync(join(folder, "predict.mjs"), module);
    const anywhere = "127.0.0.1:0";
    const options = serveSchema.parse({
      models: {
        rows: { engine: "predictor", module: join(folder, "predict.mjs") },
        words: { model: "fake", generation: { maxNewTokens: 5 } },
      },
      listen: { inference: anywhere, management: anywhere, metrics: anywhere },
      dataDirectory: join(folder, "data"),
      routes: [{ path: "/by/name", model: "{body.to.name}" }],
    });
    const logger: Logger = { log: (_level, message) => void logged.push(message) };
    server = await startServer(options, serverContext({ logger }));
  });

  afterAll(async () => {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const post = async (path: string, body: Body, type?: string) => {
    const headers = type === undefined ? {} : { "content-type": type };
    const response = await fetch(server.addresses.inference + path, {
      ...{ method: "POST", body, headers },
    });
    return { status: response.status, text: await response.text() };
  };
  const row = async (body: Body, type?: string) =>
    JSON.parse((await post("/predictions/rows", body, type)).text).row;

  it("take JSON as the row, also without a type and from curl", async () => {
    const text = '{"a":[1,{"b":null}]}';
    const value = { a: [1, { b: null }] };
    expect(await row(text, "application/json; charset=utf-8")).toEqual(value);
    expect(await row(new TextEncoder().encode(text))).toEqual(value);
    expect(await row(text, "application/x-www-form-urlencoded")).toEqual(value);
    expect(await row("[1]", "application/json")).toEqual({ data: [1] });
    expect(await row("null", "application/json")).toEqual({ data: null });
  });

  it("take texts, bytes and forms", async () => {
    expect(await row("hello", "text/plain")).toEqual({ text: "hello" });
    expect(await row("{no json", "application/json")).toEqual({ text: "{no json" });
    const bytes = Uint8Array.of(0xff, 0x00);
    expect(await row(bytes, "application/octet-stream")).toEqual({ data: "/wA=" });
    expect(await row("a=1&b=x+y&a=2", "application/x-www-form-urlencoded")).toEqual({
      a: "2",
      b: "x y",
    });
    const form = new FormData();
    form.append("text", "one");
    form.append("text", "two");
    form.append("__proto__", "own");
    form.append("json", new Blob(['{"n":1}'], { type: "application/json" }), "n.json");
    form.append("raw", new Blob([bytes]), "raw.bin");
    const read = await row(form);
    expect(Object.entries(read)).toEqual([
      ["text", "two"],
      ["__proto__", "own"],
      ["json", { n: 1 }],
      ["raw", "/wA="],
    ]);
    const broken = await post("/predictions/rows", "x", "multipart/form-data; boundary=b");
    expect(broken.status).toBe(400);
  });

  it("end the connection of a client that says so, also in HTTP/1.0", async () => {
    const { hostname, port } = new URL(server.addresses.inference);
    for (const head of [
      "GET /ping HTTP/1.1\r\nhost: x\r\nconnection: close",
      "GET /ping HTTP/1.0",
    ]) {
      const socket = connect(Number(port), hostname);
      socket.write(`${head}\r\n\r\n`);
      const startMs = performance.now();
      const reply = await text(socket);
      expect(performance.now() - startMs, head).toBeLessThan(5000);
      expect(reply).toContain("\r\nconnection: close\r\n");
      expect(reply).toContain("Healthy");
    }
  });

  it("fail in the wire's words, with the reason in the log alone", async () => {
    const { status, text } = await post("/predictions/rows", '{"boom":1}', "application/json");
    expect([status, JSON.parse(text)]).toEqual([
      503,
      { code: 503, type: "InternalServerException", message: "Prediction failed" },
    ]);
    expect(logged.filter((line) => line.includes("boom"))).toEqual([
      expect.stringMatching(/^rows: .*: boom \(predict.mjs:2\)$/),
    ]);
  });

  it.each([
    ["node", "handler.mjs", "export const handle = () => process.exit(1);"],
    ["python3", "handler.py", "import os\ndef handle(data, context):\n    if data: os._exit(1)\n"],
  ])("refuse a body that ends its handler each time: %s", async (runtime, name, code) => {
    const folder = serverFolder();
    const handler = { path: join(folder, name), name };
    writeFileSync(handler.path, code);
    const manifest = manifestSchema.parse({ runtime, model: { modelName: "n", handler: name } });
    await writeArchive(join(folder, "n.mar"), manifest, [handler]);
    const { addresses } = await serverHere(
      {
        models: {},
        archives: { modelStore: folder, load: { n: "n.mar" } },
        limits: { maxTries: 1 },
      },
      { homeDirectory: folder, environment: { PATH: process.env.PATH } },
    );
    const statuses: number[] = [];
    for (let tries = 0; tries < 4; tries++) {
      const headers = { "x-try": String(tries) };
      const reply = await fetch(`${addresses.inference}/predictions/n`, {
        ...{ method: "POST", body: "bad", headers },
      });
      statuses.push(reply.status);
    }
    expect(statuses).toEqual([500, 500, 500, 400]);
  });

  it("ask a model of words with a text, a prompt or messages", async () => {
    const said = async (body: unknown) =>
      (await post("/predictions/words", JSON.stringify(body), "application/json")).text;
    const messages = [{ role: "user", content: "hi" }];
    for (const body of [{ text: "hi" }, { prompt: "hi" }, { data: "hi" }, { messages }]) {
      expect((await said(body)).split(" ").length).toBe(5);
    }
    const plain = await post("/predictions/words", "hi", "text/plain");
    expect(plain.text).toBe(await said({ prompt: "hi" }));
    expect(JSON.parse(await said({ other: 1 }))).toMatchObject({ code: 400 });
    const one = (text: string) => said({ prompt: text });
    const two = JSON.parse(await said({ prompt: ["hi", "ho"] }));
    expect(two).toEqual([await one("hi"), await one("ho")]);
    expect(JSON.parse(await said({ text: "hi", n: 3 }))).toHaveLength(3);
  });

  it("go to the model that a body names", async () => {
    const sent = (body: unknown) => post("/by/name", JSON.stringify(body), "application/json");
    expect((await sent({ to: { name: "rows" } })).status).toBe(200);
    expect(JSON.parse((await sent({ to: { name: "nobody" } })).text)).toMatchObject({ code: 404 });
    expect(JSON.parse((await sent({ to: "rows" })).text)).toMatchObject({
      message: "Parameter to.name is required.",
    });
  });

  it("count under TorchServe's names, by the version that the path has", async () => {
    const json = "application/json";
    const read = async (names = "") => {
      const response = await fetch(`${server.addresses.metrics}/metrics${names}`);
      return response.text();
    };
    const family = "?name[]=ts_inference_requests_total";
    const count = async (version: string) => {
      const [, value = "0"] =
        new RegExp(`model_name="rows",model_version="${version}".* (\\d+)$`, "m").exec(
          await read(family),
        ) ?? [];
      return Number(value);
    };
    const before = await count("default");
    await post("/predictions/nobody", "{}", json);
    await post("/predictions/rows", "{}", json);
    await post("/predictions/rows/1.0", "{}", json);
    await post("/predictions/rows", '{"boom":1}', json);
    expect(await count("default")).toBe(before + 2);
    expect(await count("1.0")).toBe(1);
    expect(await read(family)).not.toContain("sluice_");
    const all = await read();
    const answered = (name: string) => new RegExp(`^${name}\\{.*version="1.0".*\\} [\\d.]+$`, "m");
    expect(all).toMatch(answered("ts_inference_latency_microseconds"));
    expect(all).toMatch(answered("ts_queue_latency_microseconds"));
    for (const figure of ["Requests2XX", "Requests4XX", "Requests5XX"]) {
      expect(all).toMatch(new RegExp(`^${figure}\\{Level="Host",Hostname="[^"]+"\\} [1-9]`, "m"));
    }
    expect(all).toMatch(/^QueueTime\{Level="Host",Hostname="[^"]+"\} \d+$/m);
    expect(all).toMatch(
      /^PredictionTime\{ModelName="rows",Level="Model",Hostname="[^"]+"\} [\d.]+$/m,
    );
    expect(all).toMatch(/^sluice_http_requests_total/m);
  });

  it("leave the paths of OpenAI's API to it", async () => {
    const { status, text } = await post("/v1/nothing", "{}", "application/json");
    expect([status, JSON.parse(text).error.code]).toEqual([404, "unknown_url"]);
  });
});

describe("a server whose addresses are one", () => {
  it("has all of its wires there, and names that are unique", async () => {
    const holder = createServer().listen(0, "127.0.0.1");
    await once(holder, "listening");
    const { port } = holder.address() as AddressInfo;
    await new Promise((resolve) => holder.close(resolve));
    const address = `127.0.0.1:${port}`;
    const options = (variants: object) =>
      serveSchema.parse({
        models: { a: { model: "fake", variants }, b: "fake" },
        listen: { inference: address, management: address, metrics: address },
        dataDirectory: mkdtempSync(join(tmpdir(), "predictions-data-")),
      });
    const server = await startServer(options({ c: {} }), serverContext());
    const get = async (path: string) => (await fetch(`http://${address}${path}`)).json();
    expect(await get("/ping")).toEqual({ status: "Healthy" });
    expect(await get("/models?limit=1")).toMatchObject({ nextPageToken: "1" });
    expect(await get("/v1/models/a")).toMatchObject({ id: "a", object: "model" });
    expect(await get("/v1/models")).toMatchObject({ data: [{}, {}] });
    const scaled = `http://${address}/models/c?min_worker=2&synchronous=true`;
    expect((await fetch(scaled, { method: "PUT" })).status).toBe(200);
    expect(await get("/models/a")).toMatchObject([{ minWorkers: 2, workers: [{}, {}] }]);
    await server.close();
    await expect(startServer(options({ b: {} }), serverContext())).rejects.toThrow(
      /already registered for model b \(field models\.b\)/,
    );
  });
});
