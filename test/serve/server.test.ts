import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Clock, systemClock } from "../../src/foundation/clock.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { RequestFacts } from "../../src/serve/listener.ts";
import { startServer } from "../../src/serve/server.ts";
import { freePort } from "../free-ports.ts";
import { untilRequests } from "../integration/served.ts";
import {
  sent,
  serverContext,
  serverFolder,
  serverHere,
  serverOptions,
  withCalls,
} from "./server-here.ts";

const messages = [{ role: "user", content: "Hi" }];
const slow = { m: { engine: "fake", latencyMs: 500, capacity: 1 } };
/** Its waits are short. */
const hastyClock: Clock = {
  ...systemClock,
  schedule: (ms, call) => systemClock.schedule(ms / 50, call),
};
const chatOf = (address: string) =>
  sent(`${address}/v1/chat/completions`, { model: "m", messages });

/** A connection to an address; it ends with the test. */
function connected(address: string): Socket {
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** The first lines of the replies on a connection, and their bodies, until it ends. */
async function repliesOn(socket: Socket) {
  const whole = await text(socket).catch(() => "");
  return whole.split(/(?=HTTP\/1\.1 \d)/).filter(Boolean);
}

describe("a server that starts", () => {
  /** A predictor that is loaded once its folder has a file `go`. */
  const module = `
    import { existsSync } from "node:fs";
    while (!existsSync(new URL("go", import.meta.url))) await new Promise((go) => setTimeout(go, 20));
    export const predict = (batch) => batch.map(() => ({ said: true }));`;

  it("tells those who ask for a model of its file to come again, until it is loaded", async () => {
    const folder = serverFolder();
    writeFileSync(join(folder, "late.mjs"), module);
    const address = `http://127.0.0.1:${await freePort()}`;
    const listen = {
      inference: address.slice(7),
      management: "127.0.0.1:0",
      metrics: "127.0.0.1:0",
    };
    const late = { engine: "predictor", module: join(folder, "late.mjs") };
    const models = { late: { model: late, variants: { ko: { tgt_lang: "ko" } } } };
    const starting = startServer(serverOptions(folder, { models, listen }), serverContext());
    onTestFinished(async () => (await starting).close());
    const statusOf = async (path: string) => (await fetch(address + path)).status;
    await expect.poll(() => statusOf("/livez").catch(() => 0)).toBe(200);
    const ask = (model: string) => sent(`${address}/v1/chat/completions`, { model, messages });
    const early = await ask("late");
    expect(early).toMatchObject({ status: 503, body: { error: { code: "service_unavailable" } } });
    expect(Number(early.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect((await ask("nobody")).status).toBe(404);
    for (const name of ["late", "ko"]) {
      expect((await sent(`${address}/predictions/${name}`, {})).status).toBe(503);
    }
    expect((await sent(`${address}/predictions/nobody`, {})).status).toBe(404);
    expect([await statusOf("/readyz"), await statusOf("/ping")]).toEqual([503, 500]);
    writeFileSync(join(folder, "go"), "");
    await starting;
    expect([await statusOf("/readyz"), await statusOf("/ping")]).toEqual([200, 200]);
    expect((await sent(`${address}/predictions/ko`, {})).body).toEqual({ said: true });
    const management = (await starting).addresses.management;
    expect((await fetch(`${management}/models/ko`, { method: "DELETE" })).status).toBe(200);
    expect((await sent(`${address}/predictions/ko`, {})).status).toBe(404);
  });

  it("loads no more models once it is to end", async () => {
    const folder = serverFolder();
    const stop = new AbortController();
    stop.abort(new Error("enough"));
    const options = serverOptions(folder, { models: { m: { engine: "fake" } } });
    await expect(startServer(options, serverContext(), stop.signal)).rejects.toThrow("enough");
    // Its data directory is free again.
    await (await startServer(options, serverContext())).close();
  });

  it("names the model that cannot be loaded", async () => {
    const models = {
      fine: { engine: "fake" },
      broken: { engine: "predictor", module: "/nowhere/module.mjs" },
    };
    await expect(serverHere({ models })).rejects.toMatchObject({
      place: { field: "models.broken.model.module" },
      message: expect.stringContaining("(field models.broken.model.module)"),
    });
  });

  it("listens by the name localhost with all of its limits", async () => {
    const any = "localhost:0";
    const models = { m: { engine: "fake" } };
    const listen = { inference: any, management: any, metrics: any };
    const { addresses } = await serverHere({ models, listen });
    expect(addresses.inference).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect((await chatOf(addresses.inference)).status).toBe(200);
  });
});

describe("TLS", () => {
  function certified(name: string) {
    const folder = serverFolder();
    const [certificate, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
    const made = ["-keyout", key, "-out", certificate, "-days", "2", "-nodes", ...subject];
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", ...made], { stdio: "pipe" });
    return { certificate, key };
  }

  it("is served at all addresses, by the files of the certificate and its key", async () => {
    const tls = certified("localhost");
    const { addresses } = await serverHere({ models: { m: { engine: "fake" } }, tls });
    const ca = readFileSync(tls.certificate);
    const fetched = (path: string) =>
      new Promise<string>((resolve, reject) => {
        const address = path.replace("127.0.0.1", "localhost");
        const asked = { ca, agent: false, family: 4 };
        get(address, asked, (reply) => resolve(text(reply))).on("error", reject);
      });
    for (const [kind, path, said] of [
      ["inference", "/v1/models", '"id":"m"'],
      ["management", "/models", '"modelName": "m"'],
      ["metrics", "/metrics", "sluice_requests_in_flight"],
    ] as const) {
      expect(addresses[kind]).toMatch(/^https:/);
      expect(await fetched(addresses[kind] + path)).toContain(said);
    }
    await expect(fetch(addresses.inference.replace("https", "http"))).rejects.toThrow();
  });

  it("has its faults named: a file that is missing, and one that is not of the other", async () => {
    const [one, other] = [certified("one"), certified("other")];
    const start = (tls: typeof one) => serverHere({ models: { m: { engine: "fake" } }, tls });
    const missing = { ...one, key: join(one.key, "../none.pem") };
    await expect(start(missing)).rejects.toMatchObject({
      ...{ code: "SERVER_INVALID", place: { field: "tls.key" } },
      message: expect.stringContaining("none.pem"),
    });
    for (const tls of [
      { ...one, key: other.key },
      { ...one, certificate: one.key },
    ]) {
      await expect(start(tls)).rejects.toMatchObject({
        ...{ code: "SERVER_INVALID", place: { field: "tls" } },
      });
    }
  });
});

describe("a server that ends", () => {
  it("answers what comes on connections that it has, in the form of their wires", async () => {
    const server = await serverHere({ models: slow, limits: { drainTimeoutMs: 10_000 } });
    const { inference } = server.addresses;
    const socket = connected(inference);
    const replies = repliesOn(socket);
    const post = (path: string, body: object) => {
      const json = JSON.stringify(body);
      const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json`;
      return `${head}\r\ncontent-length: ${json.length}\r\n\r\n${json}`;
    };
    const chat = post("/v1/chat/completions", { model: "m", messages });
    socket.write(chat);
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    const closed = server.close();
    socket.write(chat);
    const [first, second, ...others] = await replies;
    expect(first).toMatch(/^HTTP\/1\.1 200 /);
    expect(second).toMatch(/^HTTP\/1\.1 503 /);
    expect(second!.toLowerCase()).toContain("\r\nconnection: close\r\n");
    expect(second!.toLowerCase()).toContain("\r\nretry-after: 1\r\n");
    expect(second).toContain('"code":"service_unavailable"');
    expect(others).toEqual([]);
    await closed;
  });
});

describe("paths that are broken or too long", () => {
  it("are refused in the form of their wires, with an id, and are in the log", async () => {
    const logged: RequestFacts[] = [];
    const logAccess = (facts: RequestFacts) => void logged.push(facts);
    const { addresses } = await serverHere({ models: slow }, { logAccess });
    for (const [path, isOpenAi] of [
      ["/v1/models/%E0%A4%A", true],
      [`/v1/files/${"a".repeat(300)}`, true],
      ["/predictions/%E0%A4%A", false],
      [`/predictions/${"a".repeat(300)}`, false],
    ] as const) {
      const reply = await fetch(addresses.inference + path);
      const body = (await reply.json()) as object;
      expect([reply.status, body], path).toMatchObject([
        400,
        isOpenAi
          ? { error: { type: "invalid_request_error" } }
          : { code: 400, type: "BadRequestException" },
      ]);
      const id = reply.headers.get("x-request-id");
      expect(logged.at(-1)).toMatchObject({ path, status: 400, requestId: id });
    }
  });
});

describe("the access log", () => {
  it("has a line for clients that left, and for requests that did not arrive", async () => {
    const logged: RequestFacts[] = [];
    const logAccess = (facts: RequestFacts) => void logged.push(facts);
    const limits = { requestArrivalTimeoutMs: 300 };
    const server = await serverHere({ models: slow, limits }, { logAccess });
    const { addresses } = server;
    const route = "/v1/chat/completions";
    const statuses = () =>
      logged.filter((facts) => facts.route === route).map(({ status }) => [status, route]);
    const leaving = new AbortController();
    const body = JSON.stringify({ model: "m", messages });
    const left = fetch(addresses.inference + route, {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body },
      signal: leaving.signal,
    });
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    leaving.abort();
    await expect(left).rejects.toThrow();
    await expect.poll(statuses).toEqual([[499, route]]);
    const head = `POST ${route} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n`;
    connected(addresses.inference).write(`${head}content-length: 100\r\n\r\n{`);
    await expect.poll(statuses).toEqual([
      [499, route],
      [408, route],
    ]);
    const metrics = await (await fetch(`${addresses.metrics}/metrics`)).text();
    expect(metrics).not.toContain('status="499"');
  });

  it("is empty if the file of the server says so", async () => {
    const logged: RequestFacts[] = [];
    const logAccess = (facts: RequestFacts) => void logged.push(facts);
    const options = { models: { m: { engine: "fake" } }, accessLog: false };
    const { addresses } = await serverHere(options, { logAccess });
    expect((await chatOf(addresses.inference)).status).toBe(200);
    expect(logged).toEqual([]);
  });
});

describe("JSON that nests", () => {
  it.each(["/v1/chat/completions", "/predictions/m"])("512 deep is read at %s", async (path) => {
    const { addresses } = await serverHere({ models: { m: { engine: "fake" } } });
    const nested = (depth: number) => {
      let value: unknown = 1;
      for (let at = 0; at < depth; at++) value = [value];
      return value;
    };
    // The body itself is a level.
    const ask = async (depth: number) => {
      const asked = { model: "m", messages, temperature: nested(depth - 1) };
      const { status, body } = await sent(addresses.inference + path, asked);
      return { status, said: JSON.stringify(body) };
    };
    const tooDeep = expect.stringContaining("the body nests deeper than 512 levels");
    expect(await ask(513)).toEqual({ status: 400, said: tooDeep });
    expect(await ask(512)).toMatchObject({ said: expect.stringContaining("temperature") });
  });
});

describe("a file with a long name", () => {
  it("can be downloaded, wherever its name is cut", async () => {
    const { addresses } = await serverHere({ models: slow });
    for (const length of [250, 251, 252, 253, 254, 255]) {
      const form = new FormData();
      form.append("purpose", "user_data");
      form.append("file", new Blob(["text"]), `${"n".repeat(length)}😀😀.txt`);
      const made = await fetch(`${addresses.inference}/v1/files`, { method: "POST", body: form });
      const { id, filename } = (await made.json()) as { id: string; filename: string };
      expect(filename.length).toBe(255);
      expect(filename.isWellFormed()).toBe(true);
      const content = await fetch(`${addresses.inference}/v1/files/${id}/content`);
      expect([content.status, await content.text()]).toEqual([200, "text"]);
    }
  });
});

describe("a batch", () => {
  /** Creates a batch of one request; resolves to the reply, and to a look at the batch. */
  async function created(address: string) {
    const url = "/v1/chat/completions";
    const line = { custom_id: "a", method: "POST", url, body: { model: "m", messages } };
    const form = new FormData();
    form.append("purpose", "batch");
    form.append("file", new Blob([JSON.stringify(line)]), "in.jsonl");
    const uploaded = await fetch(`${address}/v1/files`, { method: "POST", body: form });
    const { id: input_file_id } = (await uploaded.json()) as { id: string };
    const asked = { input_file_id, endpoint: url, completion_window: "24h" };
    const made = await sent(`${address}/v1/batches`, asked);
    const { id } = made.body as { id: string };
    return { made, look: async () => (await fetch(`${address}/v1/batches/${id}`)).json() };
  }
  const models = { m: { engine: "fake" } };
  const completed = { status: "completed", request_counts: { total: 1, completed: 1 } };

  it("is carried out though its input could not be kept at once", async () => {
    const common = serverContext();
    let faults = 1;
    const openStorage = (place: string) => {
      const storage = common.openStorage(place);
      return withCalls(storage, {
        async publish(from, to) {
          if (to.endsWith("/input.jsonl") && faults > 0) {
            faults--;
            throw new Error("a fault");
          }
          await storage.publish(from, to);
        },
      });
    };
    const { addresses } = await serverHere({ models }, { openStorage });
    const { made, look } = await created(addresses.inference);
    expect([made.status, faults]).toEqual([200, 0]);
    await expect.poll(look).toMatchObject(completed);
  });

  it.each([1, 12])(
    "goes on after %d faults of the storage, and the server lives",
    async (count) => {
      const common = serverContext();
      let faults = 0;
      const openStorage = (place: string) => {
        const storage = common.openStorage(place);
        return withCalls(storage, {
          async replace(path, bytes) {
            // The first one is the creation.
            if (path.startsWith("batch-records/") && faults++ > 0 && faults <= 1 + count) {
              throw new Error("no space");
            }
            await storage.replace(path, bytes);
          },
        });
      };
      // Waits between tries grow to a minute.
      const { addresses } = await serverHere({ models }, { openStorage, clock: hastyClock });
      const { look } = await created(addresses.inference);
      const isFailed = count > 5;
      await expect.poll(look).toMatchObject(isFailed ? { status: "failed" } : completed);
      await expect.poll(() => faults).toBeGreaterThan(count);
      expect((await chatOf(addresses.inference)).status).toBe(200);
    },
  );
});

describe("a request that ends its model three times alone", () => {
  const said = "this row ended its engine each time it was processed alone: 3 times";

  it.each([
    ["/v1/chat/completions", { messages }, { error: { type: "invalid_request_error" } }],
    ["/v1/completions", { prompt: "x" }, { error: { type: "invalid_request_error" } }],
    ["/predictions/m", { text: "x" }, { code: 400, type: "BadRequestException" }],
  ])("is refused by name at %s", async (path, asked, refusal) => {
    const failures = [{ rate: 1, kind: "kill-engine" as const }];
    const model = { engine: "fake", failures };
    const { addresses } = await serverHere(
      { models: { m: model }, limits: { maxTries: 3 } },
      { clock: hastyClock },
    );
    const ask = () => sent(addresses.inference + path, { model: "m", ...asked });
    expect((await ask()).status).toBeGreaterThanOrEqual(500);
    const { status, body } = await ask();
    expect([status, body]).toMatchObject([400, refusal]);
    expect(JSON.stringify(body)).toContain(said);
  });
});

describe("the line before a model", () => {
  it("shares it among tokens by their weights", async () => {
    const tokens = [
      { name: "large", sha256: sha256Hex("large"), weight: 3 },
      { name: "small", sha256: sha256Hex("small") },
    ];
    const { addresses } = await serverHere({
      models: { m: { engine: "fake", latencyMs: 20, capacity: 1 } },
      tokens,
    });
    const order: string[] = [];
    const ask = async (token: string) => {
      const address = `${addresses.inference}/v1/chat/completions`;
      const authorization = { authorization: `Bearer ${token}` };
      const { status } = await sent(address, { model: "m", messages }, authorization);
      expect(status).toBe(200);
      order.push(token);
    };
    await Promise.all(Array.from({ length: 40 }, (_, at) => ask(at % 2 ? "large" : "small")));
    // The first few are let in before all have come.
    const large = order.slice(4, 24).filter((token) => token === "large").length;
    expect(large).toBeGreaterThanOrEqual(13);
  });

  it("does not believe limits of answers that no answer reaches", async () => {
    const server = await serverHere({ models: slow });
    const ask = (more: object = {}) =>
      sent(`${server.addresses.inference}/v1/chat/completions`, { model: "m", messages, ...more });
    await ask({ max_tokens: 5 });
    const boasting = ask({ max_tokens: 2_000_000_000 });
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    expect((await ask({ max_tokens: 5 })).status).toBe(200);
    expect((await boasting).status).toBe(200);
  });
});
