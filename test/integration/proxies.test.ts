import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type FakeServer, startFakeServer } from "../../src/testing/fake-server.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { fileListener } from "../data/sources/web-server.ts";

/** A name that no resolver knows: only the proxy reaches it. */
const host = "models.invalid";
const root = mkdtempSync(join(tmpdir(), "sluice-proxies-"));
const rows = Array.from(
  { length: 20 },
  (_, id) => `${JSON.stringify({ id, text: `row ${id}` })}\n`,
);
const certificate = join(root, "certificate.pem");

let model: FakeServer;
let securePort = 0;
let proxyPort = 0;
/** What the proxy was asked, as `CONNECT host:port` or `POST http://…`. */
let asked: string[] = [];
/** `user:password` that it wants, and the status that it gives to every tunnel. */
let credentials = "";
let tunnelStatus = 200;
const servers: Server[] = [];

function listen(server: Server): Promise<number> {
  servers.push(server);
  return new Promise((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)),
  );
}

function isKnown({ headers }: IncomingMessage): boolean {
  if (credentials === "") return true;
  const wanted = `Basic ${Buffer.from(credentials).toString("base64")}`;
  return headers["proxy-authorization"] === wanted;
}

/** A proxy that takes any host for this machine. */
function proxyServer(): Server {
  const server = createServer((incoming, outgoing) => {
    asked.push(`${incoming.method} ${incoming.url}`);
    if (!isKnown(incoming)) return void outgoing.writeHead(407).end();
    const { port, pathname, search } = new URL(incoming.url!);
    const { method, headers } = incoming;
    const path = pathname + search;
    const sent = request({ host: "127.0.0.1", port, method, path, headers }, (reply) => {
      outgoing.writeHead(reply.statusCode!, reply.headers);
      reply.pipe(outgoing);
    });
    incoming.pipe(sent);
  });
  server.on("connect", (incoming: IncomingMessage, socket, head: Buffer) => {
    asked.push(`CONNECT ${incoming.url}`);
    const status = isKnown(incoming) ? tunnelStatus : 407;
    if (status !== 200) return void socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
    const port = Number(incoming.url!.split(":")[1]);
    const behind = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      behind.write(head);
      behind.pipe(socket).pipe(behind);
    });
    for (const side of [behind, socket]) side.on("error", () => side.destroy());
  });
  return server;
}

/** Gives files, and hands all else to the model's server. */
function secureServer(): Server {
  const names = `subjectAltName=DNS:${host},DNS:localhost`;
  const key = join(root, "key.pem");
  const made = ["-keyout", key, "-out", certificate, "-days", "2", "-nodes"];
  const subject = ["-subj", `/CN=${host}`, "-addext", names];
  const create = ["req", "-x509", "-newkey", "rsa:2048", ...made, ...subject];
  execFileSync("openssl", create, { stdio: "pipe" });
  const giveRows = fileListener(() => Buffer.from(rows.join("")));
  const options = { key: readFileSync(key), cert: readFileSync(certificate) };
  return createTlsServer(options, (incoming, outgoing) => {
    const { method, url: path = "", headers } = incoming;
    if (path.endsWith("rows.jsonl")) return giveRows(incoming, outgoing);
    if (path.startsWith("/api/")) return void outgoing.end(JSON.stringify(hubPage(path)));
    const sent = request({ host: "127.0.0.1", port: model.port, method, path, headers });
    sent.on("response", (reply) => {
      outgoing.writeHead(reply.statusCode!, reply.headers);
      reply.pipe(outgoing);
    });
    incoming.pipe(sent);
  });
}

/** What the hub says of the one dataset that it has. */
function hubPage(path: string): object {
  const sha = "0123456789012345678901234567890123456789";
  if (!path.includes("/tree/")) return { id: "team/rows", sha, siblings: [] };
  return [{ type: "file", path: "rows.jsonl", size: rows.join("").length, oid: sha }];
}

beforeAll(async () => {
  // They count before those in upper case.
  for (const name of ["http_proxy", "https_proxy", "no_proxy"]) vi.stubEnv(name, undefined);
  model = await startFakeServer();
  securePort = await listen(secureServer());
  proxyPort = await listen(proxyServer());
});
afterAll(async () => {
  vi.unstubAllEnvs();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await model.close();
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => {
  [asked, credentials, tunnelStatus] = [[], "", 200];
});
let folders = 0;

/** Runs a job over the rows, with the environment that users of a proxy have, and that alone. */
async function run(
  model: object,
  environment: Record<string, string> = {},
  input = "rows.jsonl",
): Promise<{ code: number | null; stderr: string; answered: number }> {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  writeFileSync(join(folder, "rows.jsonl"), rows.join(""));
  const rest = { prompt: "Say {{ text }}", output: "out", workers: { max: 1 } };
  writeFileSync(join(folder, "job.json"), JSON.stringify({ input, model, ...rest }));
  const proxy = `http://127.0.0.1:${proxyPort}`;
  const none = { SSL_CERT_FILE: "", NO_PROXY: "" };
  const proxies = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy };
  const { code, stdout, stderr } = await runSluice(["run", "-c", "job.json", "--json"], folder, {
    ...{ ...none, ...proxies, NODE_EXTRA_CA_CERTS: certificate, HF_TOKEN: "" },
    ...environment,
  });
  const summary = JSON.parse(stdout.trim().split("\n").at(-1) || "{}");
  return { code, stderr, answered: summary.rows?.answered ?? 0 };
}

const askedOf = (baseUrl: string) => ({ engine: "openai", name: "m", baseUrl, maxInFlight: 4 });
const secure = () => askedOf(`https://${host}:${securePort}/v1`);
const plain = () => askedOf(`http://${host}:${model.port}/v1`);
const proxyAs = (user: string) => `http://${user}@127.0.0.1:${proxyPort}`;

describe("the packed program behind a proxy", () => {
  it("asks an https endpoint through a tunnel", async () => {
    const { code, stderr, answered } = await run(secure());
    expect([code, answered], stderr).toEqual([0, rows.length]);
    expect(new Set(asked)).toEqual(new Set([`CONNECT ${host}:${securePort}`]));
  });

  it("asks an http endpoint through the proxy, without a tunnel", async () => {
    const { code, stderr, answered } = await run(plain());
    expect([code, answered], stderr).toEqual([0, rows.length]);
    expect(asked).toContain(`POST http://${host}:${model.port}/v1/chat/completions`);
    expect(asked.filter((line) => line.startsWith("CONNECT"))).toEqual([]);
  });

  it.each(["user:pass%40word", "user"])("says who it is: %s", async (user) => {
    credentials = decodeURIComponent(user.includes(":") ? user : `${user}:`);
    const environment = { HTTPS_PROXY: proxyAs(user), HTTP_PROXY: proxyAs(user) };
    for (const job of [secure(), plain()]) {
      const { code, stderr, answered } = await run(job, environment);
      expect([code, answered], stderr).toEqual([0, rows.length]);
    }
  });

  it("goes past it to the hosts of NO_PROXY", async () => {
    const job = askedOf(`https://localhost:${securePort}/v1`);
    const { code, stderr } = await run(job, { NO_PROXY: "localhost" });
    expect([code, asked], stderr).toEqual([0, []]);
  });

  it("stops with the cause at a wrong password, and does not repeat it", async () => {
    credentials = "user:right";
    const environment = { HTTPS_PROXY: proxyAs("user:wrong"), HTTP_PROXY: proxyAs("user:wrong") };
    for (const job of [secure(), plain()]) {
      const { code, stderr } = await run(job, environment);
      expect(code, stderr).not.toBe(0);
      expect(stderr).toMatch(/ENDPOINT_UNUSABLE.*407/);
      expect(stderr).toContain("user and password in HTTPS_PROXY");
      expect(stderr).not.toContain("wrong");
    }
  });

  it("stops with the cause where the proxy makes no tunnel to this host", async () => {
    tunnelStatus = 403;
    const { code, stderr } = await run(secure());
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/ENDPOINT_UNUSABLE.*the proxy made no tunnel, status 403/);
  });

  it.each([
    ["a web server", () => `https://${host}:${securePort}/rows.jsonl`],
    ["the hub", () => "hf://datasets/team/rows/rows.jsonl"],
  ])("reads inputs of %s through a tunnel", async (_, input) => {
    const hub = { HF_ENDPOINT: `https://${host}:${securePort}` };
    const { code, stderr, answered } = await run({ engine: "fake" }, hub, input());
    expect([code, answered], stderr).toEqual([0, rows.length]);
    expect(new Set(asked)).toEqual(new Set([`CONNECT ${host}:${securePort}`]));
  });
});
