import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import OpenAI, { APIError } from "openai";
import { describe, expect, it, onTestFinished } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { type Served, serveFolder, startServe } from "./served.ts";
import { begun, chat, isOver, jsonl, linesOf, until } from "./served-batches.ts";

interface Reply {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

const key = "sk-operators-own-key";
const error = (message: string, others: object = {}) => ({ error: { message, ...others } });
const invalid = { type: "invalid_request_error", param: null, code: null };

/** What callers are told in the provider's words. */
const forCallers: Record<string, Reply> = {
  temperature: {
    status: 400,
    body: error("Invalid 'top_p': too high.", { ...invalid, param: "top_p", code: "above_max" }),
  },
  filter: {
    status: 400,
    body: error("The response was filtered due to our content management policy.", {
      ...{ type: null, param: "prompt", code: "content_filter" },
      innererror: { code: "ResponsibleAIPolicyViolation" },
    }),
  },
  long: {
    status: 400,
    body: error("This model's maximum context length is 8192 tokens.", {
      ...{ ...invalid, param: "messages", code: "context_length_exceeded" },
    }),
  },
  large: { status: 413, body: error("Request body is too large", { ...invalid, code: 413 }) },
  unprocessable: { status: 422, body: error("messages: field required", { ...invalid }) },
  flagged: { status: 403, body: error("Your input was flagged", { ...invalid, code: 403 }) },
  minute: {
    status: 429,
    body: error("Request too large for gpt on tokens per min", {
      ...{ type: "tokens", param: null, code: "rate_limit_exceeded" },
    }),
  },
};

/** What concerns the operator alone. */
const forOperator: Record<string, Reply> = {
  key: {
    status: 401,
    body: error(`Incorrect API key provided: ${key}`, { code: "invalid_api_key" }),
  },
  rights: { status: 403, body: error("Project proj_secret lacks access", { code: null }) },
  money: { status: 402, body: error("Account acc_secret has no credit") },
  quota: {
    status: 429,
    body: error("You exceeded your current quota", { code: "insufficient_quota" }),
  },
  model: { status: 404, body: error("The model `up` does not exist", { code: "model_not_found" }) },
  path: { status: 404, body: { detail: "Not Found: /secret/path" } },
};

/** What is over in a moment. */
const forNow: Record<string, Reply> = {
  busy: {
    status: 429,
    body: error("Rate limit reached in organization org-secret"),
    headers: { "retry-after": "7" },
  },
  loading: { status: 503, body: error("secret"), headers: { "retry-after": "9" } },
  broken: { status: 500, body: error("Traceback: secret") },
  gateway: { status: 502, body: "<html>secret</html>" },
  restarting: { status: 500, body: error("secret"), headers: { "retry-after": "11" } },
};

const replies = { ...forCallers, ...forOperator, ...forNow };

/** Refuses a prompt that names a refusal; streams two words of any other, or fails in between. */
async function startProvider(): Promise<string> {
  return (await openProvider()).baseUrl;
}

async function openProvider(): Promise<{ baseUrl: string; close(): void }> {
  const server = createServer(async (request, response) => {
    if (request.method === "GET") {
      return void send(response, { status: 200, body: { data: [{ id: "up" }] } });
    }
    const { messages, stream } = (await json(request)) as {
      messages: { content: string }[];
      stream?: boolean;
    };
    const name = messages.at(-1)!.content.replace("Say ", "");
    const reply = replies[name];
    if (reply) return void send(response, reply);
    if (!stream) {
      const choices = [{ index: 0, message: { content: "fine" }, finish_reason: "stop" }];
      return void send(response, { status: 200, body: { choices } });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const event = (body: unknown) => response.write(`data: ${JSON.stringify(body)}\n\n`);
    if (name !== "first") event({ choices: [{ index: 0, delta: { content: "one" } }] });
    event(error("stopped by the filter", { ...invalid, code: "content_filter" }));
    response.end();
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  onTestFinished(close);
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, close };
}

function send(response: ServerResponse, { status, body, headers }: Reply): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}

async function serveBefore(baseUrl: string, folder = serveFolder()): Promise<Served> {
  const model = { engine: "openai" as const, name: "up", baseUrl, apiKeyEnv: "PROVIDER_KEY" };
  return await startServe(folder, { models: { m: model } }, { PROVIDER_KEY: key });
}

const clientOf = (baseURL: string) => new OpenAI({ baseURL, apiKey: "callers", maxRetries: 0 });

async function failureOf(asked: Promise<unknown>): Promise<APIError> {
  const thrown = await asked.then(
    () => undefined,
    (failure: unknown) => failure,
  );
  expect(thrown).toBeInstanceOf(APIError);
  return thrown as APIError;
}

function ask(client: OpenAI, content: string, model = "m"): Promise<APIError> {
  const messages = [{ role: "user" as const, content }];
  return failureOf(client.chat.completions.create({ model, messages }));
}

async function askStreamed(client: OpenAI, content: string) {
  let text = "";
  const read = async () => {
    const messages = [{ role: "user" as const, content }];
    const events = await client.chat.completions.create({ model: "m", messages, stream: true });
    for await (const { choices } of events) text += choices[0]?.delta.content ?? "";
  };
  return { failure: await failureOf(read()), text };
}

const membersOf = ({ status, type, param, code, message }: APIError) => ({
  ...{ status, type, param, code, message },
});

describe("sluice serve before another server", () => {
  it("passes on what that server says to callers, member by member, streamed or not", async () => {
    const provider = await startProvider();
    const { baseUrl } = await serveBefore(provider);
    const [direct, behind] = [clientOf(provider), clientOf(baseUrl)];
    for (const name of Object.keys(forCallers)) {
      const expected = membersOf(await ask(direct, name));
      const failure = await ask(behind, name);
      expect(membersOf(failure), name).toEqual(expected);
      // Nobody waits for what no wait mends.
      expect(failure.headers!.get("x-should-retry")).toBe(name === "minute" ? "false" : null);
      expect(failure.headers!.get("retry-after")).toBeNull();
      const { failure: streamed, text } = await askStreamed(behind, name);
      expect([membersOf(streamed), text]).toEqual([expected, ""]);
    }
  });

  it("tells callers nothing of the operator's key, account, names and addresses", async () => {
    const provider = await startProvider();
    const server = await serveBefore(provider);
    const client = clientOf(server.baseUrl);
    for (const name of Object.keys(forOperator)) {
      const failure = await ask(client, name);
      expect(membersOf(failure), name).toEqual({
        ...{ status: 502, type: "server_error", param: null, code: "bad_gateway" },
        message:
          "502 the server behind this model refuses what this server sends; the log of this server says why",
      });
      expect(failure.headers!.get("x-should-retry")).toBe("false");
      const onTorchServe = await fetch(`${server.addresses.inference}/predictions/m`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ messages: [{ role: "user", content: name }] }),
      });
      expect(await onTorchServe.json(), name).toMatchObject({
        type: "InternalServerException",
        message: failure.message.slice("502 ".length),
      });
    }
    for (const said of ["acc_secret", "proj_secret", "`up`", "current quota", "[redacted]"]) {
      expect(server.log()).toContain(said);
    }
    expect(server.log()).not.toContain(key);
  });

  it("says when to come again, and what failed", async () => {
    const server = await serveBefore(await startProvider());
    const client = clientOf(server.baseUrl);
    const said = async (name: string) => {
      const failure = await ask(client, name);
      expect(failure.message).not.toMatch(/secret|127\.0\.0\.1/);
      const { status, type, code, headers } = failure;
      return [status, type, code, headers!.get("retry-after")];
    };
    expect(await said("busy")).toEqual([429, "rate_limit_error", "rate_limit_exceeded", "7"]);
    expect(await said("loading")).toEqual([503, "server_error", "service_unavailable", "9"]);
    expect(await said("broken")).toEqual([502, "server_error", "bad_gateway", null]);
    expect(await said("gateway")).toEqual([502, "server_error", "bad_gateway", null]);
    expect(await said("restarting")).toEqual([502, "server_error", "bad_gateway", "11"]);
    const { status, headers } = (await askStreamed(client, "busy")).failure;
    expect([status, headers!.get("retry-after")]).toEqual([429, "7"]);
    // Nothing of it lasts.
    const messages = [{ role: "user" as const, content: "hello" }];
    const { choices } = await client.chat.completions.create({ model: "m", messages });
    expect(choices[0]!.message.content).toBe("fine");
  });

  it("answers at once after that server has gone", async () => {
    const provider = await openProvider();
    const { baseUrl, log } = await serveBefore(provider.baseUrl);
    provider.close();
    const { status, message, headers } = await ask(clientOf(baseUrl), "hello");
    expect([status, headers!.get("retry-after")]).toEqual([503, "1"]);
    expect(message).toBe("503 the server behind this model takes no requests now");
    await expect.poll(log).toContain("ECONNREFUSED");
  });

  it("ends a stream with the error of that server", async () => {
    const { baseUrl } = await serveBefore(await startProvider());
    const { failure, text } = await askStreamed(clientOf(baseUrl), "hello");
    expect(text).toBe("one");
    expect(failure.error).toEqual({
      message: "stopped by the filter",
      ...invalid,
      code: "content_filter",
    });
    // Before the first piece, such an event is a status.
    const first = await askStreamed(clientOf(baseUrl), "first");
    expect(membersOf(first.failure)).toMatchObject({ status: 400, code: "content_filter" });
  });

  it("says what a server of Sluice behind it says", async () => {
    const failures = [{ rate: 1, kind: "refused" as const }];
    const up = { engine: "fake" as const, failures };
    const behind = await startServe(serveFolder(), { models: { up } });
    const { baseUrl } = await serveBefore(behind.baseUrl);
    const said = async (client: OpenAI, model: string) => {
      const { message, ...others } = membersOf(await ask(client, "hello", model));
      return { ...others, message: message.replace(/row \d/, "row") };
    };
    const expected = await said(clientOf(behind.baseUrl), "up");
    expect(expected).toMatchObject({ status: 400, code: "invalid_request" });
    expect(await said(clientOf(baseUrl), "m")).toEqual(expected);
  });

  it("ends a batch whose rows fail in every try", async () => {
    const failures = [{ rate: 1, kind: "invalid" as const }];
    const { baseUrl } = await startServe(serveFolder(), {
      models: { m: { engine: "fake", failures } },
    });
    const client = clientOf(baseUrl);
    const batch = await until(client, (await begun(client, [chat("a"), chat("b")])).id, isOver);
    expect(batch).toMatchObject({ status: "completed", request_counts: { failed: 2 } });
    const [failed] = await linesOf(client, batch.error_file_id);
    expect(failed.response).toMatchObject({ status_code: 500 });
  });

  it("fails a row of a batch as it fails a request", async () => {
    const provider = await startProvider();
    const folder = serveFolder();
    const { baseUrl } = await serveBefore(provider, folder);
    const client = clientOf(baseUrl);
    const names = [...Object.keys(forCallers), "key", "broken"];
    const lines = [chat("hello"), ...names.map((name) => chat(name))];
    const batch = await until(client, (await begun(client, lines)).id, isOver);
    expect(batch.request_counts).toEqual({ total: 10, completed: 1, failed: 9 });
    const failed = await linesOf(client, batch.error_file_id);
    for (const [at, name] of names.entries()) {
      const { status, error: body } = await ask(client, name);
      const { response } = failed[at];
      expect([response.status_code, response.body.error], name).toEqual([status, body]);
    }
    // As a command says it that asks the provider itself.
    writeFileSync(join(folder, "in.jsonl"), jsonl(Object.keys(forCallers).map((id) => chat(id))));
    const files = ["-i", "in.jsonl", "-o", "out.jsonl"];
    const model = ["--model", "openai:up", "--base-url", provider, "--served-model-name", "m"];
    const { code, stderr } = await runSluice(["run-batch", ...files, ...model], folder);
    expect(code, stderr).toBe(1);
    const own = readFileSync(join(folder, "out.jsonl"), "utf8").trim().split("\n");
    const bodiesOf = (lines: { response: { status_code: number; body: unknown } }[]) =>
      lines.map(({ response: { status_code: status, body } }) => ({ status, body }));
    expect(bodiesOf(own.map((line) => JSON.parse(line)))).toEqual(
      bodiesOf(failed.slice(0, own.length)),
    );
  });
});
