import { getEventListeners } from "node:events";
import { inspect } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import type { Engine, EngineContext } from "../../../src/engines/engine.ts";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { openOpenai } from "../../../src/engines/openai/engine.ts";
import type { OpenaiModelOptions } from "../../../src/engines/openai/options.ts";
import { startInFlight } from "../../../src/engines/openai/pace/limit-finder.ts";
import {
  type FakeServer,
  type FakeServerOptions,
  type ReceivedRequest,
  type ServerBehaviour,
  startFakeServer,
} from "../../../src/testing/fake-server.ts";
import { chatRequest, engineContext, rejectionOf } from "../engine-context.ts";

const never = new AbortController().signal;
const toClose: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of toClose.splice(0).reverse()) await each.close();
});

async function serve(options: FakeServerOptions = {}): Promise<FakeServer> {
  const server = await startFakeServer(options);
  toClose.push(server);
  return server;
}

function open(
  baseUrl: string,
  changes: Partial<OpenaiModelOptions> = {},
  context: Partial<EngineContext> = {},
): Engine {
  // With a fixed number it asks for nothing else, such as the server's load.
  const fixed = { maxInFlight: 64 };
  const options = modelOptions.parse({
    ...{ engine: "openai", name: "m", baseUrl },
    ...{ ...fixed, ...changes },
  });
  // Short waits: chance that draws the first hundredth of each back-off.
  const random = { next: () => 0.01 };
  const engine = openOpenai(options as OpenaiModelOptions, engineContext({ random, ...context }));
  toClose.push(engine);
  return engine;
}

/** What the engine says when the server treats its first request so. */
async function failureBy(behaviour: ServerBehaviour, changes: Partial<OpenaiModelOptions> = {}) {
  const server = await serve({ behave: () => behaviour });
  return rejectionOf(open(server.baseUrl, changes).infer(chatRequest(1), never));
}

describe("faults of a request", () => {
  const retryable = { scope: "row", retryable: true };
  const fatalRow = { scope: "row", retryable: false };
  const fatalRun = { scope: "run", retryable: false };
  it.each<[ServerBehaviour, string, object]>([
    [{ kind: "status", status: 500 }, "SERVER_ERROR", retryable],
    [{ kind: "status", status: 503 }, "SERVER_ERROR", retryable],
    [{ kind: "hang" }, "TIMEOUT", retryable],
    [{ kind: "reset", when: "before-reply" }, "CONNECTION_LOST", retryable],
    [{ kind: "reset", when: "in-reply" }, "CONNECTION_LOST", retryable],
    [{ kind: "half-body" }, "RESPONSE_MALFORMED", retryable],
    [{ kind: "malformed-json" }, "RESPONSE_MALFORMED", retryable],
    [{ kind: "html" }, "RESPONSE_MALFORMED", retryable],
    [{ kind: "json", body: { choices: 7 } }, "RESPONSE_MALFORMED", retryable],
    [{ kind: "empty-choices" }, "ANSWER_EMPTY", retryable],
    [{ kind: "status", status: 400 }, "REQUEST_REFUSED", fatalRow],
    [{ kind: "status", status: 413 }, "REQUEST_REFUSED", fatalRow],
    [
      { kind: "status", status: 400, body: { error: { code: "context_length_exceeded" } } },
      "PROMPT_TOO_LONG",
      fatalRow,
    ],
    [{ kind: "status", status: 401 }, "AUTHENTICATION_FAILED", fatalRun],
    [{ kind: "status", status: 403 }, "AUTHENTICATION_FAILED", fatalRun],
    [
      { kind: "status", status: 404, body: { error: { code: "model_not_found" } } },
      "MODEL_UNKNOWN",
      fatalRun,
    ],
    [{ kind: "status", status: 404, body: "404" }, "ENDPOINT_PATH_UNKNOWN", fatalRun],
  ])("%j is %s", async (behaviour, code, rest) => {
    expect(await failureBy(behaviour, { timeoutMs: 100 })).toMatchObject({ code, ...rest });
  });

  it("names what came instead of JSON", async () => {
    expect((await failureBy({ kind: "html" }))!.message).toContain(
      'text/html, begins with "<html>',
    );
  });

  it("passes Retry-After on", async () => {
    const headers = { "retry-after": "2" };
    const error = await failureBy({ kind: "status", status: 500, headers });
    expect(error).toMatchObject({ code: "SERVER_ERROR", retryAfterMs: 2000 });
  });

  it("leaves the engine working", async () => {
    const faults: ServerBehaviour[] = [
      { kind: "reset", when: "in-reply" },
      { kind: "hang" },
      { kind: "reset", when: "before-reply" },
      { kind: "status", status: 500 },
    ];
    const server = await serve({ behave: ({ number }) => faults[number] });
    const engine = open(server.baseUrl, { maxInFlight: 1, timeoutMs: 100 });
    for (const _ of faults)
      expect(await rejectionOf(engine.infer(chatRequest(1), never))).toBeDefined();
    expect((await engine.infer(chatRequest(1), never)).answers.length).toBe(1);
  });

  it("counts a request's time from when it is sent, not its wait for a connection", async () => {
    const server = await serve({ behave: () => ({ kind: "hang" }) });
    const engine = open(server.baseUrl, { timeoutMs: 80, maxInFlight: 2 });
    const errors = [1, 2, 3].map((index) => rejectionOf(engine.infer(chatRequest(index), never)));
    expect((await Promise.all(errors)).map((error) => error!.code)).toEqual(
      Array(3).fill("TIMEOUT"),
    );
  });

  it("takes a prompt beyond contextTokens as too long where the server does not", async () => {
    const choices = [{ message: { content: "yes" }, finish_reason: "stop" }];
    const body = { choices, usage: { prompt_tokens: 6, completion_tokens: 1 } };
    const server = await serve({ behave: () => ({ kind: "json", body }) });
    const engine = open(server.baseUrl, { contextTokens: 5 });
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toMatchObject({ code: "PROMPT_TOO_LONG", retryable: false });
    expect([error?.message, server.received]).toEqual([expect.stringContaining("tokens,"), 1]);
  });

  it("does not ask what surely exceeds contextTokens", async () => {
    const server = await serve();
    const engine = open(server.baseUrl, { contextTokens: 4 });
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toMatchObject({ code: "PROMPT_TOO_LONG", retryable: false });
    expect([error?.message, server.received]).toEqual([expect.stringContaining("words"), 0]);
  });
});

describe("faults of the endpoint", () => {
  it("429 pauses all requests; a probe opens it again; no request sees it", async () => {
    let refusals = 0;
    const server = await serve({
      behave: () =>
        refusals++ < 3
          ? { kind: "status", status: 429, headers: { "retry-after-ms": "30" } }
          : undefined,
    });
    const lines: string[] = [];
    const logger = { log: (_level: string, message: string) => void lines.push(message) };
    const engine = open(server.baseUrl, { maxInFlight: 2 }, { logger });
    const all = [1, 2, 3, 4, 5, 6].map((index) => engine.infer(chatRequest(index), never));
    expect((await Promise.all(all)).length).toBe(6);
    expect(server.received).toBe(9);
    expect(lines.at(-1)).toBe("the endpoint answers again");
  });

  it("an endpoint that is not there yet is waited for", async () => {
    const { port, baseUrl, close } = await startFakeServer();
    await close();
    const engine = open(baseUrl);
    const answer = engine.infer(chatRequest(1), never);
    const server = await serve({ port });
    expect((await answer).answers.length).toBe(1);
    expect(server.received).toBe(1);
  });

  it("ends the run when it is down for too long, and says why", async () => {
    const { baseUrl, close } = await startFakeServer();
    await close();
    const engine = open(baseUrl, { maxEndpointDownMs: 20 });
    const errors = [1, 2, 3].map((index) => rejectionOf(engine.infer(chatRequest(index), never)));
    for (const error of await Promise.all(errors)) {
      expect(error).toMatchObject({ code: "ENDPOINT_DOWN", scope: "run" });
      expect(error!.message).toContain("ECONNREFUSED");
    }
  });

  it("waits in a pause only until the signal is aborted or the engine is closed", async () => {
    const headers = { "retry-after": "500" };
    const server = await serve({ behave: () => ({ kind: "status", status: 429, headers }) });
    const engine = open(server.baseUrl);
    const controller = new AbortController();
    const aborted = rejectionOf(engine.infer(chatRequest(1), controller.signal));
    const held = rejectionOf(engine.infer(chatRequest(2), never));
    while (server.received < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    controller.abort("stop");
    expect(await aborted).toBe("stop");
    await engine.close();
    expect(await held).toMatchObject({ code: "ENGINE_DIED" });
  });
});

describe("what is sent", () => {
  async function received(path: string, changes = {}, context: Partial<EngineContext> = {}) {
    const requests: ReceivedRequest[] = [];
    const server = await serve({ behave: (request) => void requests.push(request) });
    const { origin } = new URL(server.baseUrl);
    const engine = open(origin + path, changes, context);
    const { messages: _, ...request } = chatRequest(1);
    await engine.infer(chatRequest(1), never);
    await engine.infer({ ...request, prompt: "Once" }, never);
    return requests;
  }

  it.each(["/v1", "/v1/", "/v1?version=2"])("goes to the right address under %s", async (path) => {
    const query = new URL(path, "http://x").search;
    expect((await received(path)).map((request) => request.path)).toEqual([
      `/v1/chat/completions${query}`,
      `/v1/completions${query}`,
    ]);
  });

  it("carries the key that the job names, or none: OPENAI_API_KEY is not for others", async () => {
    const environment = { OPENAI_API_KEY: "sk-default", OTHER: " sk-other\n" };
    const sent = async (changes = {}, context: Partial<EngineContext> = {}) =>
      (await received("/v1", changes, context))[0]!.headers.authorization;
    expect(await sent({}, { environment })).toBeUndefined();
    const written = { apiKeyEnv: "OPENAI_API_KEY" };
    expect(await sent(written, { environment })).toBe("Bearer sk-default");
    expect(await sent({ apiKeyEnv: "OTHER" }, { environment })).toBe("Bearer sk-other");
    expect(await sent()).toBeUndefined();
  });

  it("needs the key that the job names, and one that fits in a header", () => {
    const url = "http://127.0.0.1:9/v1";
    const codes = [{ KEY: "" }, {}, { KEY: "a b" }].map((environment) => {
      try {
        return open(url, { apiKeyEnv: "KEY" }, { environment });
      } catch (error) {
        return (error as { code: string }).code;
      }
    });
    expect(codes).toEqual(["ENV_MISSING", "ENV_MISSING", "JOB_INVALID"]);
  });

  it("goes through the proxy, with the whole address", async () => {
    const asked: ReceivedRequest[] = [];
    const proxy = await serve({ behave: (request) => void asked.push(request) });
    const environment = { HTTP_PROXY: new URL(proxy.baseUrl).origin.replace("//", "//user:pw@") };
    await open("http://far.example/v1", {}, { environment }).infer(chatRequest(1), never);
    expect(asked[0]!.path).toBe("http://far.example/v1/chat/completions");
    expect(asked[0]!.headers).toMatchObject({
      host: "far.example",
      "proxy-authorization": `Basic ${btoa("user:pw")}`,
    });
  });

  it("takes a proxy that does not tunnel as an endpoint that is down", async () => {
    const proxy = await serve();
    const environment = { HTTPS_PROXY: new URL(proxy.baseUrl).origin };
    const engine = open("https://far.example/v1", { maxEndpointDownMs: 0 }, { environment });
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toMatchObject({ code: "ENDPOINT_DOWN" });
  });
});

describe("the key", () => {
  const key = "sk-very-secret-key";
  const echo = `{"error":{"message":"Incorrect key ${key}"}}`;
  it.each<ServerBehaviour>([
    { kind: "status", status: 401, body: echo },
    { kind: "status", status: 400, body: `Bearer ${key}` },
    { kind: "status", status: 429, body: echo, headers: { "retry-after": "9" } },
    { kind: "json", body: `Bearer ${key}` },
    { kind: "status", status: 200, body: `${"x".repeat(75)}${key}` },
  ])("is in no error and no log line after %j", async (behaviour) => {
    const server = await serve({ behave: () => behaviour });
    const lines: unknown[] = [];
    const engine = open(
      server.baseUrl,
      { apiKeyEnv: "KEY", maxEndpointDownMs: 1 },
      { environment: { KEY: key }, logger: { log: (...line) => void lines.push(line) } },
    );
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toBeDefined();
    const told = inspect([error, lines, engine], { depth: 12, showHidden: true });
    expect(told).not.toContain("sk-ver");
  });

  it("is hinted at by its variable", async () => {
    const server = await serve({ behave: () => ({ kind: "status", status: 401 }) });
    const context = { environment: { KEY: key } };
    const engine = open(server.baseUrl, { apiKeyEnv: "KEY" }, context);
    const error = await rejectionOf(engine.infer(chatRequest(1), never));
    expect(error).toMatchObject({ hint: "check the value of KEY" });
  });
});

describe("what an engine found out", () => {
  it("is how many requests at once each endpoint takes, and how many it refused", async () => {
    let refused = 0;
    const limited = await serve({
      behave: () => (refused++ === 0 ? { kind: "status", status: 429 } : undefined),
    });
    const engine = open(limited.baseUrl, { maxInFlight: undefined });
    const found = () => engine.choices?.endpoints;
    const endpoint = limited.baseUrl;
    const none = { endpoint, by: "goodput", highest: 0, refused: 0 };
    expect(found()).toEqual([{ ...none, maxInFlight: startInFlight }]);
    await Promise.all([1, 2, 3].map((index) => engine.infer(chatRequest(index), never)));
    expect(found()).toMatchObject([{ endpoint, by: "goodput", highest: 3, refused: 1 }]);
    const given = open(limited.baseUrl, { maxInFlight: 7 });
    expect(given.choices?.endpoints).toMatchObject([{ by: "job", maxInFlight: 7 }]);
  });
});

describe("many requests", () => {
  it("share connections and one listener on their signal", async () => {
    const server = await serve({ delayMs: 10 });
    const engine = open(server.baseUrl, { maxInFlight: 5 });
    const { signal } = new AbortController();
    const all = Array.from({ length: 40 }, (_, index) => engine.infer(chatRequest(index), signal));
    await Promise.resolve();
    expect(getEventListeners(signal, "abort").length).toBe(1);
    await Promise.all(all);
    expect(getEventListeners(signal, "abort").length).toBe(0);
    expect(server.mostHeld).toBe(5);
    expect([...server.countsByBody.values()].filter((count) => count !== 1)).toEqual([]);
  });

  it("leave the server when they are aborted", async () => {
    const server = await serve({ behave: () => ({ kind: "hang" }) });
    const engine = open(server.baseUrl, { maxInFlight: 4 });
    const controller = new AbortController();
    const all = Array.from({ length: 6 }, (_, index) =>
      rejectionOf(engine.infer(chatRequest(index), controller.signal)),
    );
    while (server.held < 4) await new Promise((resolve) => setTimeout(resolve, 1));
    controller.abort("stop");
    expect(await Promise.all(all)).toEqual(Array(6).fill("stop"));
    while (server.held > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(server.received).toBe(4);
  });
});
