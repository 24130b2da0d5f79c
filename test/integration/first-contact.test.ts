import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import {
  type FakeServer,
  type FakeServerOptions,
  startFakeServer,
} from "../../src/testing/fake-server.ts";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { freePort } from "../free-ports.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-contact-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

/** A folder with a job over three rows. */
function folderWith(model: object): string {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  writeFileSync(join(folder, "rows.jsonl"), '{"id":0}\n{"id":1}\n{"id":2}\n');
  const rest = { input: "rows.jsonl", prompt: "Say {{ id }}", output: "out" };
  const whole = { engine: "openai", name: "small-model", ...model };
  writeFileSync(join(folder, "job.json"), JSON.stringify({ ...rest, model: whole }));
  return folder;
}

const call = ["run", "-c", "job.json"];

/** A run that is given up before it starts a worker, in this process. */
async function refusedWith(model: object, environment: Record<string, string> = {}) {
  const folder = folderWith(model);
  const startedMs = performance.now();
  const ended = await callHere(call, folder, environment);
  const seconds = (performance.now() - startedMs) / 1000;
  return { ...ended, seconds, isPlanned: existsSync(join(folder, "out")) };
}

const runWith = (model: object) => runSluice(call, folderWith(model));

/** A server that lists one model, and knows those that `chats` says. */
async function served(behave?: FakeServerOptions["behave"]): Promise<FakeServer> {
  const server = await startFakeServer({
    behave: (request) =>
      behave?.(request) ??
      (request.method === "GET" && request.path === "/v1/models"
        ? { kind: "json", body: { object: "list", data: [{ id: "small-model" }] } }
        : undefined),
  });
  onTestFinished(() => server.close());
  return server;
}

/** A port on which somebody listens who never says a word. */
async function silentPort(): Promise<number> {
  const server = createServer(() => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const at = (port: number) => `http://127.0.0.1:${port}/v1`;
const unknownModel = (name: string) => ({
  kind: "status" as const,
  ...{ status: 404, body: { error: { message: `The model \`${name}\` does not exist.` } } },
});

describe("a server that is not there", () => {
  it("is given up with the cause where nobody listens, and nothing is planned", async () => {
    const baseUrl = at(await freePort());
    const { code, stderr, isPlanned } = await refusedWith({ baseUrl, firstAnswerMs: 1200 });
    expect([code, isPlanned], stderr).toEqual([69, false]);
    expect(stderr).toContain("ECONNREFUSED");
    expect(stderr).toContain(baseUrl);
    expect(stderr).toContain("trying for 1.2 s");
    expect(stderr).toContain("start the server");
  });

  it("is given up where somebody listens who never answers, after ten seconds", async () => {
    const { code, stderr, seconds, isPlanned } = await refusedWith({
      baseUrl: at(await silentPort()),
    });
    expect([code, isPlanned], stderr).toEqual([69, false]);
    expect(stderr).toMatch(/ENDPOINT_DOWN.*no whole reply in 10000 ms/);
    expect(seconds).toBeGreaterThan(9);
    expect(seconds).toBeLessThan(30);
  });

  it("is an error at once where nobody knows the name of its host", async () => {
    const proxies = { http_proxy: "", HTTP_PROXY: "" };
    const baseUrl = "http://no-such-host.invalid:8000/v1";
    const patient = { baseUrl, firstAnswerMs: 600_000 };
    const { code, stderr, isPlanned } = await refusedWith(patient, proxies);
    expect([code, isPlanned], stderr).toEqual([69, false]);
    expect(stderr).toContain("no-such-host.invalid is not known");
  });

  it("is waited for where it is just starting", async () => {
    const port = await freePort();
    const run = startSluice(call, folderWith({ baseUrl: at(port) }));
    while (!run.stderr().includes("no answer yet, trying for") && !run.hasEnded()) await pause(20);
    const server = await startFakeServer({ port });
    onTestFinished(() => server.close());
    const { code, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
  });

  it("is given up by parts that are worked on alone, and by resume, and then goes on", async () => {
    const port = await freePort();
    const folder = folderWith({ baseUrl: at(port), firstAnswerMs: 300 });
    expect((await runSluice(["plan", "-c", "job.json", "--write"], folder)).code).toBe(0);
    const share = ["worker", "out", "--share", "0/1"];
    for (const again of [share, ["worker", "out", "--tasks", "0"], ["resume", "out"], call]) {
      const { code, stderr } = await runSluice(again, folder);
      expect(code, stderr).toBe(69);
      expect(stderr).toMatch(/ENDPOINT_DOWN.*ECONNREFUSED/);
    }
    const server = await startFakeServer({ port });
    onTestFinished(() => server.close());
    const { code, stderr } = await runSluice(share, folder);
    expect(code, stderr).toBe(0);
    const { rows } = JSON.parse(readFileSync(join(folder, "out", "_manifest.json"), "utf8"));
    expect(rows).toMatchObject({ total: 3, answered: 3, failed: 0 });
  });

  it("is told of where it is one of several, and the others are asked", async () => {
    const [dead, server] = [at(await freePort()), await served()];
    const endpoints = [{ baseUrl: dead }, { baseUrl: server.baseUrl }];
    const { code, stderr } = await runWith({ endpoints, firstAnswerMs: 300 });
    expect(code, stderr).toBe(0);
    expect(stderr).toContain("cannot be used yet");
    expect(stderr).toContain(dead);
  });
});

describe("a server that is there", () => {
  it("is looked at twice, whether it lists models or not", async () => {
    const missing = { kind: "status", status: 404 } as const;
    for (const isListing of [true, false]) {
      const asked: string[] = [];
      const server = await served(({ method, path }) => {
        asked.push(`${method} ${path}`);
        return isListing || method === "POST" ? undefined : missing;
      });
      const { code, stderr } = await runWith({ baseUrl: server.baseUrl });
      expect(code, stderr).toBe(0);
      expect(asked.filter((line) => line.endsWith("/models"))).toHaveLength(2);
      expect(asked.filter((line) => line.startsWith("POST"))).toHaveLength(3);
    }
  });

  it("that refuses the key ends the run before any row", async () => {
    const server = await served(() => ({ kind: "status", status: 401 }));
    const key = { OPENAI_API_KEY: "not-the-right-one" };
    const { baseUrl } = server;
    const named = { baseUrl, apiKeyEnv: "OPENAI_API_KEY" };
    const { code, stderr, isPlanned } = await refusedWith(named, key);
    expect([code, isPlanned], stderr).toEqual([69, false]);
    expect(stderr).toContain("AUTHENTICATION_FAILED");
    expect(stderr).toContain("check the value of OPENAI_API_KEY");
    expect(stderr).not.toContain("not-the-right-one");
    const unnamed = await refusedWith({ baseUrl }, key);
    expect(unnamed.stderr).toContain("OPENAI_API_KEY goes to OpenAI alone");
  });

  it("that does not know the model ends it too, and the nearest name is told", async () => {
    const server = await served(({ method }) =>
      method === "POST" ? unknownModel("smal-model") : undefined,
    );
    const { code, stderr, isPlanned } = await refusedWith({
      baseUrl: server.baseUrl,
      name: "smal-model",
    });
    expect([code === 0, isPlanned], stderr).toEqual([false, false]);
    expect(stderr).toContain("MODEL_UNKNOWN");
    expect(stderr).toContain("did you mean small-model?");
  });

  it("that answers to a name which it does not list is used", async () => {
    const server = await served();
    const { code, stderr } = await runWith({ baseUrl: server.baseUrl, name: "an-alias" });
    expect(code, stderr).toBe(0);
  });

  it("is not looked at by a plan, which says what a run would do", async () => {
    const server = await served();
    const folder = folderWith({ baseUrl: server.baseUrl });
    const { stdout } = await callHere(["plan", "-c", "job.json"], folder);
    expect(stdout).toContain(`GET ${server.baseUrl}/models`);
    expect(server.received).toBe(0);
  });
});
