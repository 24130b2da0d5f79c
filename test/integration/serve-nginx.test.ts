import { execFileSync, spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { Agent } from "undici";
import { expect, it, onTestFinished } from "vitest";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import { freePort } from "../free-ports.ts";
import { blocksOf } from "../meta/markdown.ts";
import { root } from "../meta/source-tree.ts";
import { type Served, serveFolder, startServe, untilRequests } from "./served.ts";

const page = "docs/serve-nginx.md";
const host = "models.example.com";

/** Why nginx cannot be started here; undefined if it can. */
function missingNginx(): string | undefined {
  if (spawnSync("nginx", ["-v"]).error)
    return "nginx is not installed: apt-get install nginx-light";
  if (spawnSync("openssl", ["version"]).error) return "openssl is not installed";
  return undefined;
}

/**
 * Starts nginx with the configuration of the page, whose places alone are other ones.
 *
 * @returns what makes a client with a key.
 */
async function startNginx(folder: string, served: Served) {
  const names = ["-keyout", join(folder, "models.key"), "-out", join(folder, "models.pem")];
  const subject = ["-subj", `/CN=${host}`, "-addext", `subjectAltName=DNS:${host}`];
  const create = [
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "2",
    ...names,
    ...subject,
  ];
  execFileSync("openssl", create, { stdio: "pipe" });
  const port = await freePort();
  const text = readFileSync(join(root, page), "utf8");
  const [block] = blocksOf({ path: page, text }).filter(({ language }) => language === "nginx");
  const places: [string, string][] = [
    ["server 127.0.0.1:8080;", `server ${new URL(served.baseUrl).host};`],
    ["listen 443 ssl;", `listen 127.0.0.1:${port} ssl;`],
    ["/etc/nginx/models.pem", join(folder, "models.pem")],
    ["/etc/nginx/models.key", join(folder, "models.key")],
    ["/var/log/nginx/sluice.log", join(folder, "access.log")],
  ];
  let configuration = block!.text;
  for (const [ofPage, here] of places) {
    expect(configuration).toContain(ofPage);
    configuration = configuration.replace(ofPage, here);
  }
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${join(folder, "tmp")}-${name};`)
    .join("\n");
  const whole = `daemon off;\npid ${folder}/nginx.pid;\nerror_log ${folder}/error.log;
worker_processes 1;\nevents {}\nhttp {\n${temporary}\n${configuration}\n}\n`;
  writeFileSync(join(folder, "nginx.conf"), whole);
  const child = spawn(
    "nginx",
    ["-p", folder, "-c", join(folder, "nginx.conf"), "-e", join(folder, "error.log")],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  onTestFinished(() => void child.kill("SIGTERM"));
  let said = "";
  child.stderr.on("data", (chunk) => {
    said += chunk;
  });
  const ca = readFileSync(join(folder, "models.pem"), "utf8");
  const dispatcher = new Agent({ connect: { ca, servername: host } });
  onTestFinished(() => dispatcher.destroy());
  const baseUrl = `https://127.0.0.1:${port}/v1`;
  for (;;) {
    const reply = await fetch(baseUrl.replace("/v1", "/readyz"), { dispatcher } as never).catch(
      () => undefined,
    );
    if (reply?.status === 200) break;
    if (child.exitCode !== null) throw new Error(`nginx: ${said}`);
    await pause(50);
  }
  return (apiKey: string) =>
    new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0, fetchOptions: { dispatcher } as never });
}

const say = (model: string) => ({
  model,
  messages: [{ role: "user" as const, content: "Tell me of rivers" }],
});
const megabyte = 1024 * 1024;

it("nginx passes chats, streams, uploads, refusals and tokens", async (context) => {
  const missing = missingNginx();
  context.skip(missing !== undefined, missing ?? "");
  const folder = serveFolder();
  const sha256 = sha256Hex("key");
  const served = await startServe(folder, {
    models: {
      m: { engine: "fake", latencyMs: 1500 },
      slow: { engine: "fake", latencyMs: 60_000, capacity: 1 },
    },
    tokens: [{ name: "me", sha256, scopes: ["infer", "metrics"] }],
    limits: { maxQueueSize: 1, maxFileBytes: 80 * megabyte },
  });
  const clientOf = await startNginx(folder, served);
  const client = clientOf("key");

  const { data, response } = await client.chat.completions.create(say("m")).withResponse();
  expect(data.choices).toHaveLength(1);
  const requestId = response.headers.get("x-request-id")!;
  await expect(clientOf("wrong").models.list()).rejects.toMatchObject({ status: 401 });

  const startMs = performance.now();
  const times: number[] = [];
  for await (const { choices } of await client.chat.completions.create({
    ...say("m"),
    stream: true,
  })) {
    if (choices[0]?.delta.content) times.push(performance.now() - startMs);
  }
  expect(times.length).toBeGreaterThan(3);
  // The words come over a second and a half: held back, they would come together.
  expect(times.at(-1)! - times[0]!).toBeGreaterThan(500);

  // More than other bodies may have, and than nginx takes by default.
  const upload = async (bytes: number) =>
    client.files.create({
      file: await toFile(Buffer.alloc(bytes, "a"), "a.txt"),
      purpose: "user_data",
    });
  const file = await upload(70 * megabyte);
  expect((await client.files.retrieve(file.id)).bytes).toBe(70 * megabyte);
  await expect(upload(81 * megabyte)).rejects.toMatchObject({
    ...{ status: 413, code: "request_too_large" },
  });

  const slowRequestsAre = (count: number) =>
    untilRequests(
      served,
      "slow",
      { inFlight: count, waiting: count },
      { authorization: "Bearer key" },
    );
  const leaving = new AbortController();
  const held = [0, 1].map(() =>
    client.chat.completions.create(say("slow"), { signal: leaving.signal }).catch(() => "left"),
  );
  await slowRequestsAre(1);
  const refused = await client.chat.completions.create(say("slow")).catch((error) => error);
  expect(refused).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  leaving.abort();
  expect(await Promise.all(held)).toEqual(["left", "left"]);
  await slowRequestsAre(0);

  const log = readFileSync(join(folder, "access.log"), "utf8");
  expect(log).toContain(requestId);
  expect(served.log()).toContain(`"requestId":"${requestId}"`);
  await served.end("SIGKILL");
  await expect(clientOf("key").models.list()).rejects.toMatchObject({ status: 502 });
});
