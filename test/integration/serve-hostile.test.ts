import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { ServeInput } from "../../src/serve/options.ts";
import { type Served, serveFolder, startServe } from "./served.ts";
import { begun, clientOf, isOver, rows, until } from "./served-batches.ts";

const asJson = { "content-type": "application/json" };
const predictor = `
  export async function predict(batch) {
    return batch.map(({ row }) => ({ keys: Object.keys(row), heard: row.text ?? null }));
  }`;

/** A server with a model that reads words, one that reads rows, and a model store. */
async function started(more: Partial<ServeInput> = {}): Promise<Served> {
  const folder = serveFolder();
  writeFileSync(join(folder, "predict.mjs"), predictor);
  writeFileSync(join(folder, "secret.mar"), "hidden words");
  mkdirSync(join(folder, "store"));
  symlinkSync(join(folder, "secret.mar"), join(folder, "store/linked.mar"));
  return await startServe(folder, {
    models: { m: { engine: "fake" }, p: { engine: "predictor", module: "./predict.mjs" } },
    archives: { modelStore: join(folder, "store") },
    ...more,
  });
}

/** It lives, and both models answer as before. */
async function expectAlive(server: Served, after: string): Promise<void> {
  const { inference } = server.addresses;
  const chat = { model: "m", messages: [{ role: "user", content: "Hi" }] };
  const send = async (path: string, value: unknown) => {
    const body = JSON.stringify(value);
    const reply = await fetch(inference + path, { method: "POST", headers: asJson, body });
    return [reply.status, await reply.json()];
  };
  expect(await send("/v1/chat/completions", chat), after).toMatchObject([
    200,
    { object: "chat.completion" },
  ]);
  expect(await send("/predictions/p", { text: "x" }), after).toEqual([
    200,
    { keys: ["text"], heard: "x" },
  ]);
}

describe("addresses of models", () => {
  it("lead nowhere: not to this machine, not to its network, not out of the store", async () => {
    const visits: string[] = [];
    const inside = createServer((request, response) => {
      visits.push(request.url!);
      response.writeHead(302, { location: "/elsewhere" }).end();
    });
    inside.listen(0, "127.0.0.1");
    onTestFinished(() => void inside.close());
    await once(inside, "listening");
    const { port } = inside.address() as AddressInfo;
    const server = await started();
    const statusOf = async (url: string, how = "POST") => {
      const address = `${server.addresses.management}/models?url=${encodeURIComponent(url)}`;
      const reply = await fetch(address, { method: how });
      return [reply.status, url, (await reply.text()).includes("hidden words")];
    };
    for (const url of [
      "http://169.254.169.254/latest/meta-data/iam.mar",
      ...[
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "[::ffff:7f00:1]",
      ].map((host) => `http://${host}:${port}/a.mar`),
      ...[`HTTP://127.0.0.1:${port}/a.mar`, `http://u:p@127.0.0.1:${port}/a.mar`],
      ...["http://10.0.0.1/a.mar", "http://192.168.0.1/a.mar", "https://[fd00::1]/a.mar"],
      ...[
        "file:///etc/passwd",
        "ftp://127.0.0.1/a.mar",
        "s3://bucket/a.mar",
        "data://x,y",
        "http://",
      ],
    ]) {
      expect(await statusOf(url)).toEqual([400, url, false]);
    }
    for (const url of [
      ...[
        "../secret.mar",
        "a/../../secret.mar",
        "/etc/passwd",
        "linked.mar",
        ".",
        "",
        "%2e%2e/secret.mar",
      ],
      ...["file:/etc/passwd", `//127.0.0.1:${port}/a.mar`, `http:\\127.0.0.1:${port}\\a.mar`],
      ...["..\\secret.mar", "secret.mar\0", "store\0/../secret.mar"],
    ]) {
      const [status, , isTold] = await statusOf(url);
      expect([400 <= Number(status) && Number(status) < 500, isTold], `${status} ${url}`).toEqual([
        true,
        false,
      ]);
    }
    expect(visits).toEqual([]);
    const listed = await fetch(`${server.addresses.management}/models`);
    expect(((await listed.json()) as { models: unknown[] }).models).toHaveLength(2);
    await expectAlive(server, "all");
  });

  it("that are allowed do not open those beside them", async () => {
    const visits: string[] = [];
    const inside = createServer((request, response) => {
      visits.push(request.url!);
      response.writeHead(404).end();
    });
    inside.listen(0, "127.0.0.1");
    onTestFinished(() => void inside.close());
    await once(inside, "listening");
    const { port } = inside.address() as AddressInfo;
    const open = `http://127.0.0.1:${port}/open/`;
    const server = await started({ archives: { urls: [open] } });
    const { management } = server.addresses;
    for (const url of [
      ...[`${open}../closed/a.mar`, `${open}%2e%2e/closed/a.mar`, `${open}..%2fclosed/a.mar`],
      ...[`${open}..%5Cclosed/a.mar`, `${open}..\\closed\\a.mar`],
      ...[`http://127.0.0.1:${port}@localhost:${port}/open/a.mar`],
      ...[`http://127.0.0.1:${port}.localhost/open/a.mar`, `http://localhost:${port}/open/a.mar`],
    ]) {
      const reply = await fetch(`${management}/models?url=${encodeURIComponent(url)}`, {
        method: "POST",
      });
      expect([reply.status, await reply.text()], url).toEqual([
        400,
        expect.stringContaining("does not match any allowed URL(s)"),
      ]);
    }
    expect(visits).toEqual([]);
    await fetch(`${management}/models?url=${open}a.mar`, { method: "POST" });
    expect(visits).toEqual(["/open/a.mar"]);
  });
});

describe("a page of another site in a browser of this machine", () => {
  const refused: Record<string, string>[] = [
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: "http://localhost.evil.example" },
    { origin: "http://203.0.113.7" },
    { host: "evil.example" },
    { host: "evil.example:8080" },
    { host: "localhost.evil.example" },
  ];
  const welcome: Record<string, string>[] = [
    { origin: "http://localhost:3000" },
    { origin: "http://127.0.0.1:3000" },
    { origin: "chrome-extension://abcdef" },
    { host: "localhost:8080" },
    { host: "models.internal" },
    { host: "[::1]:8080" },
    { host: "192.0.2.1" },
  ];
  /** `fetch` sets these headers by itself. */
  const send = async (address: string, path: string, headers: Record<string, string>) => {
    const asked = request(address + path, { method: "POST", headers: { ...asJson, ...headers } });
    asked.end(JSON.stringify({ text: "x" }));
    const [reply] = await once(asked, "response");
    return [reply.statusCode, Buffer.concat(await reply.toArray()).toString()];
  };

  it("is refused at each address without tokens, and nothing on this machine is", async () => {
    const { addresses } = await started();
    for (const headers of refused) {
      const about = JSON.stringify(headers);
      const [status, text] = await send(addresses.inference, "/v1/chat/completions", headers);
      expect([status, text], about).toEqual([403, expect.stringContaining("origin_refused")]);
      const wire = [400, expect.stringContaining("InvalidKeyException")];
      expect(await send(addresses.inference, "/predictions/p", headers), about).toEqual(wire);
      expect(await send(addresses.management, "/models?url=p.mar", headers), about).toEqual(wire);
    }
    for (const headers of welcome) {
      const [status] = await send(addresses.inference, "/predictions/p", headers);
      expect(status, JSON.stringify(headers)).toBe(200);
    }
  });

  it("is served where everybody may ask", async () => {
    const { addresses } = await started({ insecure: true });
    const [status] = await send(addresses.inference, "/predictions/p", refused[0]!);
    expect(status).toBe(200);
  });
});

it("each address asks for its token, whatever the path", async () => {
  const tokens = (["infer", "manage", "metrics"] as const).map((scope) => ({
    ...{ name: scope, sha256: sha256Hex(`${scope}-token`), scopes: [scope] },
  }));
  const server = await started({ tokens });
  const asked = {
    inference: [
      ...[
        "GET /v1/models",
        "GET /v1/models/m",
        "POST /v1/chat/completions",
        "POST /v1/completions",
      ],
      ...["POST /v1/embeddings", "GET /v1/files", "POST /v1/files", "GET /v1/files/file-1"],
      ...["GET /v1/files/file-1/content", "DELETE /v1/files/file-1", "GET /v1/batches"],
      ...["POST /v1/batches", "GET /v1/batches/b", "POST /v1/batches/b/cancel"],
      ...["GET /v1/batches/b/manifest", "GET /ping", "POST /predictions/p", "POST /explanations/p"],
      ...["POST /v1/models/p:predict", "POST /v2/models/p/infer", "POST /models/p/invoke"],
      ...["POST /invocations", "POST /p/predict", "POST //predictions/p", "HEAD /v1/models"],
    ],
    management: [
      ...["GET /models", "GET /models/m", "POST /models?url=a.mar", "PUT /models/m?min_worker=2"],
      ...["DELETE /models/m", "PUT /models/m/1.0/set-default", "GET /v1/models/m"],
    ],
    metrics: ["GET /metrics", "GET /metrics?name[]=Requests2XX"],
  };
  const wrongKeys = {
    inference: ["manage-token", "metrics-token"],
    management: ["infer-token", "metrics-token"],
    metrics: ["infer-token", "manage-token"],
  };
  for (const [kind, requests] of Object.entries(asked) as [keyof typeof asked, string[]][]) {
    for (const request of requests) {
      const [method = "", path = ""] = request.split(" ");
      for (const key of [undefined, "", "wrong", ...wrongKeys[kind]]) {
        const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
        const reply = await fetch(server.addresses[kind] + path, {
          ...{ method, headers: { ...headers, ...(method === "POST" && asJson) } },
          ...(method === "POST" && { body: '{"model":"m","text":"x"}' }),
        });
        const text = await reply.text();
        const isRefused = [401, 403].includes(reply.status) || /InvalidKey/.test(text);
        // A path that does not exist says so to everybody.
        const isNowhere = path.startsWith("//") && reply.status === 404;
        expect(isRefused || isNowhere, `${request} ${key}: ${reply.status} ${text}`).toBe(true);
      }
    }
  }
  const headers = { authorization: "Bearer infer-token" };
  expect((await fetch(`${server.baseUrl}/models`, { headers })).status).toBe(200);
});

describe("requests that are two", () => {
  const post = (headers: string, body: string) =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${headers}\r\n\r\n${body}`;
  const hidden = "GET /v1/models/hidden HTTP/1.1\r\nhost: x\r\n\r\n";

  it("are refused with their connection", async () => {
    const server = await started();
    const { hostname, port } = new URL(server.baseUrl);
    const chunked = `0\r\n\r\n${hidden}`;
    for (const text of [
      post(`content-length: 0\r\ncontent-length: ${hidden.length}`, hidden),
      post(`content-length: ${hidden.length}\r\ncontent-length: 0`, hidden),
      post(`content-length: 0, ${hidden.length}`, hidden),
      post(`content-length: ${chunked.length}\r\ntransfer-encoding: chunked`, chunked),
      post(`transfer-encoding: chunked\r\ncontent-length: ${chunked.length}`, chunked),
      post(`content-length: ${chunked.length}\r\ntransfer-encoding : chunked`, chunked),
      post(`content-length: ${chunked.length}\r\n transfer-encoding: chunked`, chunked),
      post(`content-length: ${chunked.length}\r\ntransfer-encoding: xchunked`, chunked),
      post(`content-length: ${chunked.length}\r\ntransfer-encoding:\u000bchunked`, chunked),
      post("transfer-encoding: chunked\r\ntransfer-encoding: identity", chunked),
      post("transfer-encoding: chunked, identity", chunked),
      post("transfer-encoding: xchunked", chunked),
      ...["+5", "-5", "0x5", "5 5", "", "99999999999999999999999"].map((length) =>
        post(`content-length: ${length}`, hidden),
      ),
      ...["0x0", "-1", "0;\n", "00000000000000000000000000g"].map((size) =>
        post("transfer-encoding: chunked", `${size}\r\n\r\n${hidden}`),
      ),
      post(`x: y\ncontent-length: ${hidden.length}\rz: y`, hidden),
    ]) {
      const socket = connect(Number(port), hostname).on("error", () => {});
      let reply = "";
      socket.on("data", (chunk) => {
        reply += chunk;
      });
      socket.write(text);
      await Promise.race([once(socket, "close"), pause(5000)]);
      const isClosed = socket.destroyed;
      socket.destroy();
      const statuses = [...reply.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
      expect([statuses, isClosed], text).toEqual([["400"], true]);
    }
    await pause(200);
    expect(server.log()).not.toContain("hidden");
    await expectAlive(server, "all");
  });
});

/** JSON that many parsers read by recursion. */
const deep = (depth: number, open = "[", close = "]") => open.repeat(depth) + close.repeat(depth);
const deepObject = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;

describe("JSON that means no good", () => {
  const sent = async (address: string, body: string, type = asJson["content-type"]) => {
    const headers = { "content-type": type };
    const reply = await fetch(address, { method: "POST", headers, body });
    return { status: reply.status, body: await reply.text() };
  };
  const message = '"messages":[{"role":"user","content":"Hi"}]';

  it("of depth 100,000 is refused, and nothing dies of it", async () => {
    const server = await started();
    const { inference, management } = server.addresses;
    for (const value of [deep(100_000), deepObject]) {
      for (const [address, body] of [
        [`${inference}/v1/chat/completions`, value],
        [`${inference}/v1/chat/completions`, `{"model":"m","messages":${value}}`],
        [`${inference}/v1/chat/completions`, `{"model":"m",${message},"tools":${value}}`],
        [`${inference}/v1/chat/completions`, `{"model":${value},${message}}`],
        [
          `${inference}/v1/chat/completions`,
          `{"model":"m",${message},"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${value}}}}`,
        ],
        [`${inference}/v1/chat/completions`, `{"model":"m",${message},"metadata":${value}}`],
        [`${inference}/v1/completions`, `{"model":"m","prompt":${value}}`],
        [`${inference}/v1/embeddings`, `{"model":"m","input":${value}}`],
        [`${inference}/v1/batches`, `{"input_file_id":${value}}`],
        [
          `${inference}/v1/batches`,
          `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":${value}}}`,
        ],
        [`${inference}/predictions/p`, value],
        [`${inference}/predictions/p`, `{"text":${value}}`],
        [`${inference}/predictions/m`, `{"messages":${value}}`],
        [`${management}/models`, value],
        [`${management}/models`, `{"url":${value}}`],
      ] as const) {
        const reply = await sent(address, body);
        const what = `${address} ${body.slice(0, 60)}: ${reply.status} ${reply.body.slice(0, 300)}`;
        // TorchServe answers a registration that is not JSON with 500.
        const isRefused = reply.status < 500 || reply.body.includes("JsonSyntaxException");
        expect.soft(reply.status >= 400 && isRefused, what).toBe(true);
        await expectAlive(server, what);
      }
    }
  });

  it("of depth 100,000 fails a batch by its line", async () => {
    const server = await started();
    const client = clientOf(server);
    const [row] = rows(1);
    const line = (more: string) =>
      JSON.stringify({ ...row, custom_id: "x" }).replace('"messages"', `${more},"messages"`);
    for (const value of [deep(100_000), deepObject]) {
      const { id } = await begun(client, [
        row,
        value,
        line(`"tools":${value}`),
        line(`"metadata":${value}`),
      ]);
      const batch = await until(client, id, isOver);
      expect(batch.status).toBe("failed");
      expect(batch.errors!.data!.map(({ code, line }) => [line, code])).toEqual(
        [2, 3, 4].map((line) => [line, "invalid_json_line"]),
      );
      await expectAlive(server, "a batch");
    }
  });

  it("with keys of prototypes changes none", async () => {
    const server = await started({ routes: [{ path: "/route", model: "{body.to.name}" }] });
    const { inference, management, metrics } = server.addresses;
    for (const key of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
      const evil = `"${key}":{"polluted":true,"name":"p"}`;
      const chats = `${inference}/v1/chat/completions`;
      for (const [address, body, status] of [
        [chats, `{"model":"m",${message},${evil}}`, 400],
        [chats, `{"model":"${key}",${message}}`, 404],
        [chats, `{"model":"m","messages":[{"role":"user","content":"Hi",${evil}}]}`, 400],
        [chats, `{"model":"m",${message},"response_format":{${evil}}}`, 400],
        [`${inference}/predictions/${key}`, "{}", 404],
        [`${inference}/route`, `{"to":{"name":"${key}"}}`, 404],
        [`${inference}/route`, `{${evil}}`, 400],
        [
          `${inference}/v1/batches`,
          `{"input_file_id":"f","endpoint":"${key}","completion_window":"24h"}`,
          400,
        ],
        [`${management}/models`, `{"url":"a.mar",${evil}}`, 404],
        [`${management}/models?${key}=1&url=${key}`, "", 404],
      ] as const) {
        const reply = await sent(address, body);
        expect.soft(reply.status, `${address} ${body}: ${reply.body}`).toBe(status);
      }
      const row = await sent(`${inference}/predictions/p`, `{${evil},"text":"x"}`);
      expect(JSON.parse(row.body)).toEqual({ keys: [key, "text"], heard: "x" });
      const form = await sent(
        `${inference}/predictions/p`,
        `${key}=1&text=x`,
        "application/x-www-form-urlencoded",
      );
      expect(JSON.parse(form.body)).toEqual({ keys: [key, "text"], heard: "x" });
      expect((await fetch(`${metrics}/metrics?name[]=${key}`)).status).toBe(200);
      expect((await fetch(`${inference}/v1/files?${key}[polluted]=1&limit=5`)).status).toBe(200);
      for (const path of [`/v1/files/${key}`, `/v1/batches/${key}`, `/v1/models/${key}`]) {
        expect((await fetch(inference + path)).status).toBe(404);
      }
      await expectAlive(server, key);
    }
  });
});
