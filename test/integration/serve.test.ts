import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import type { ServeInput } from "../../src/serve/options.ts";
import { freePort } from "../free-ports.ts";
import { sluiceProgram } from "../sluice-program.ts";
import { type Served, servedOnce, serveFolder, startServe, untilRequests } from "./served.ts";

const clientOf = ({ baseUrl }: Served, apiKey = "none") =>
  new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
const say = (content: string) => ({
  model: "m",
  messages: [{ role: "user" as const, content }],
});
const fake = (more: object = {}): ServeInput["models"] => ({ m: { engine: "fake", ...more } });
const failureOf = async (asked: PromiseLike<unknown>) => {
  const error = await Promise.resolve(asked).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof OpenAI.APIError)) throw error ?? new Error("it was answered");
  return error;
};

describe("sluice serve, with OpenAI's client", () => {
  const plain = servedOnce({ models: fake() });

  it("lists models, answers chats and completions, and streams the same", async () => {
    const client = clientOf(await plain());
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["m"]);
    expect(await client.models.retrieve("m")).toMatchObject({ object: "model" });

    const asked = { ...say("Tell me of rivers"), seed: 7 };
    const whole = await client.chat.completions.create(asked);
    expect(whole).toMatchObject({ object: "chat.completion", model: "m" });
    const [choice] = whole.choices;
    expect(choice).toMatchObject({ index: 0, finish_reason: "stop" });
    expect(whole.usage!.total_tokens).toBeGreaterThan(0);

    const stream = await client.chat.completions.create({
      ...{ ...asked, stream: true, stream_options: { include_usage: true } },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    const pieces = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? ""));
    expect(pieces.join("")).toBe(choice!.message.content);
    expect(pieces.length).toBeGreaterThan(3);
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe("stop");
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: whole.usage });

    const two = await client.completions.create({ model: "m", prompt: "Rivers", n: 2 });
    expect(two.choices.map(({ index }) => index)).toEqual([0, 1]);
  });

  it("answers each prompt of a list in its place, also in a stream", async () => {
    const { completions } = clientOf(await plain());
    const asked = { model: "m", prompt: ["Rivers", "Hills"], n: 2, seed: 3 };
    const { choices, usage } = await completions.create(asked);
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    const alone = await Promise.all(
      asked.prompt.map((prompt) => completions.create({ ...asked, prompt })),
    );
    const texts = choices.map(({ text }) => text);
    expect(texts).toEqual(alone.flatMap((each) => each.choices.map(({ text }) => text)));
    expect(new Set(texts).size).toBe(4);
    const costs = alone.map((each) => each.usage!.total_tokens);
    expect(usage!.total_tokens).toBe(costs[0]! + costs[1]!);
    const streamed = ["", "", "", ""];
    for await (const { choices: pieces } of await completions.create({ ...asked, stream: true })) {
      for (const { index, text } of pieces) streamed[index] += text;
    }
    expect(streamed).toEqual(texts);
  });

  it("shows an answer that was cut off before its form, as OpenAI does", async () => {
    const { chat } = clientOf(await plain());
    const properties = { city: { type: "string" }, river: { type: "string" } };
    const schema = { type: "object", properties, required: ["city", "river"] };
    const asked = (max_tokens: number) =>
      chat.completions.create({
        ...{ ...say("Where?"), max_tokens },
        response_format: { type: "json_schema", json_schema: { name: "place", schema } },
      });
    const [cut, whole] = await Promise.all([asked(1), asked(100)]);
    expect(cut.choices[0]!.finish_reason).toBe("length");
    expect(() => JSON.parse(cut.choices[0]!.message.content!)).toThrow();
    expect(whole.choices[0]!.finish_reason).toBe("stop");
    expect(Object.keys(JSON.parse(whole.choices[0]!.message.content!))).toEqual(schema.required);
  });

  it("names what is wrong with a request, in OpenAI's shape", async () => {
    const server = await plain();
    const client = clientOf(server);
    const chats = client.chat.completions;
    const strange = { ...say("x"), temperatur: 1 };
    const [unknown, parameter, range, vectors, ...absent] = await Promise.all([
      failureOf(chats.create({ ...say("x"), model: "n" })),
      failureOf(chats.create(strange)),
      failureOf(chats.create({ ...say("x"), temperature: 11 })),
      failureOf(client.embeddings.create({ model: "m", input: "x" })),
      failureOf(client.images.generate({ model: "m", prompt: "x" })),
      failureOf(client.moderations.create({ model: "m", input: "x" })),
      failureOf(client.responses.create({ model: "m", input: "x" })),
    ]);
    for (const each of absent) expect(each).toMatchObject({ status: 404, code: "unknown_url" });
    expect(unknown).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(unknown.message).toContain("did you mean m?");
    expect(parameter).toMatchObject({ status: 400, param: "temperatur" });
    expect(parameter.message).toContain("did you mean temperature? (field temperatur)");
    expect(range).toMatchObject({ status: 400, type: "invalid_request_error" });
    expect(vectors).toMatchObject({ status: 400 });
    const path = await fetch(`${server.baseUrl}/chat/completion`, { method: "POST" });
    expect([path.status, (await path.json()) as object]).toMatchObject([
      404,
      { error: { code: "unknown_url" } },
    ]);
  });

  it("frees the place of a client that leaves, and refuses beyond its queue", async () => {
    const server = await startServe(serveFolder(), {
      models: fake({ latencyMs: 60_000, capacity: 1 }),
      limits: { maxQueueSize: 1 },
    });
    const client = clientOf(server);
    const leaving = new AbortController();
    const left = client.chat.completions.create(say("1"), { signal: leaving.signal });
    const gone = failureOf(left);
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    const second = new AbortController();
    const waits = failureOf(client.chat.completions.create(say("2"), { signal: second.signal }));
    await untilRequests(server, "m", { inFlight: 1, waiting: 1 });
    const refused = await failureOf(client.chat.completions.create(say("3")));
    expect(refused).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    expect(Number(refused.headers!.get("retry-after"))).toBeGreaterThanOrEqual(1);
    leaving.abort();
    await gone;
    // The second is in work now, so that another one may wait.
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    const third = new AbortController();
    const place = failureOf(client.chat.completions.create(say("4"), { signal: third.signal }));
    await untilRequests(server, "m", { inFlight: 1, waiting: 1 });
    second.abort();
    third.abort();
    await Promise.all([waits, place]);
  });

  it("lets a request wait no longer than its client says, on each wire", async () => {
    const server = await startServe(serveFolder(), {
      models: fake({ latencyMs: 60_000, capacity: 1 }),
    });
    const client = clientOf(server);
    const leaving = new AbortController();
    const working = failureOf(client.chat.completions.create(say("1"), { signal: leaving.signal }));
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    const asked = async (wait: string) => {
      const headers = { "x-sluice-max-wait-ms": wait, "content-type": "application/json" };
      const chat = client.chat.completions.create(say("2"), { headers });
      const address = server.baseUrl.replace("/v1", "/predictions/m");
      const body = JSON.stringify({ text: "2" });
      const reply = await fetch(address, { method: "POST", headers, body });
      return [(await failureOf(chat)).status, reply.status];
    };
    expect(await asked("100")).toEqual([429, 503]);
    expect(await asked("soon")).toEqual([400, 400]);
    leaving.abort();
    await working;
  });

  it("sends a request again whose model died, and goes on", async () => {
    const failures = [{ row: 0, kind: "kill-engine" as const }];
    const client = clientOf(await startServe(serveFolder(), { models: fake({ failures }) }));
    const answered = await Promise.allSettled(
      [1, 2, 3].map((each) => client.chat.completions.create(say(String(each)))),
    );
    const statuses = answered.map((each) =>
      each.status === "fulfilled" ? 200 : (each.reason as { status: number }).status,
    );
    expect(statuses.slice(1)).toEqual([200, 200]);
    expect([200, 503]).toContain(statuses[0]);
    expect((await client.chat.completions.create(say("4"))).choices).toHaveLength(1);
  });
});

describe("sluice serve, where a request ends its model", () => {
  const module = `
    export async function predict(batch) {
      if (batch.some(({ row }) => row.text === "kill")) process.kill(process.pid, "SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, 50));
      return batch.map(({ row }) => ({ heard: row.text }));
    }`;

  it("refuses it by name after its third death alone, and answers all others", async () => {
    const folder = serveFolder();
    writeFileSync(join(folder, "predict.mjs"), module);
    const server = await startServe(folder, {
      models: { p: { engine: "predictor", module: "./predict.mjs", maxBatchRows: 4 } },
    });
    const send = async (text: string) => {
      const address = server.baseUrl.replace("/v1", "/predictions/p");
      const body = JSON.stringify({ text });
      for (let tries = 1; ; tries++) {
        const reply = await fetch(address, {
          ...{ method: "POST", headers: { "content-type": "application/json" }, body },
        });
        const { status } = reply;
        const said = await reply.text();
        // As clients do: a server that says 503 or 500 is asked again.
        if (status < 500 || tries === 8) return { status, tries, said };
        await pause(50);
      }
    };
    const others = Array.from({ length: 24 }, (_, at) => send(`row ${at}`));
    const killer = send("kill");
    const statuses = (await Promise.all(others)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200]));
    const said = expect.stringContaining("this row ended its engine each time it was processed");
    expect(await killer).toMatchObject({ status: 400, said });
    expect(await send("kill")).toMatchObject({ status: 400, tries: 1, said });
    expect(await send("row")).toMatchObject({ status: 200, tries: 1 });
  });
});

describe("sluice serve, who may ask", () => {
  const token = "quiet-river-token";
  const tokens = [
    { name: "team", sha256: sha256Hex(token) },
    { name: "watcher", sha256: sha256Hex("watcher-token"), scopes: ["metrics" as const] },
  ];

  const module = `
    export async function predict([row]) {
      if (JSON.stringify(row).includes("deadly")) process.exit(3);
      if (JSON.stringify(row).includes("failing")) throw new Error("not acceptable");
      return ["fine"];
    }`;
  const p = { engine: "predictor", module: "./predict.mjs", maxBatchRows: 1 };
  const guarded = servedOnce({ models: { ...fake(), p }, tokens }, {}, { "predict.mjs": module });

  it("takes only its tokens, each for its scopes, and logs neither them nor prompts", async () => {
    const server = await guarded();
    const statusOf = async (key: string) =>
      (await failureOf(clientOf(server, key).chat.completions.create(say("x")))).status;
    expect([await statusOf("wrong"), await statusOf("watcher-token")]).toEqual([401, 403]);
    const answer = await clientOf(server, token).chat.completions.create(say("very secret words"));
    expect(answer.choices).toHaveLength(1);
    expect((await fetch(server.baseUrl.replace("/v1", "/readyz"))).status).toBe(200);
    await expect.poll(server.log).toContain('"caller":"team"');
    const log = server.log();
    for (const secret of [token, "watcher-token", "very secret words"]) {
      expect(log).not.toContain(secret);
    }
  });

  it("logs no text of a caller, whatever happens to it", async () => {
    const server = await guarded();
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const { inference } = server.addresses;
    const statusOf = async (path: string, body: object) => {
      const asked = { method: "POST", headers, body: JSON.stringify(body) };
      return (await fetch(inference + path, asked)).status;
    };
    const told = (text: string) => [{ role: "user", content: `quiet words ${text}` }];
    const client = clientOf(server, token);
    const line = (custom_id: string, text: string, more = {}) =>
      JSON.stringify({
        ...{ custom_id, method: "POST", url: "/v1/chat/completions" },
        body: { model: "p", messages: told(text), ...more },
      });
    const batchOf = async (...lines: string[]) => {
      const file = await toFile(Buffer.from(lines.join("\n")), "quiet file.jsonl");
      const { id: input_file_id } = await client.files.create({ file, purpose: "batch" });
      const endpoint = "/v1/chat/completions";
      return client.batches.create({ input_file_id, endpoint, completion_window: "24h" });
    };
    const fine = line("quiet id", "fine");
    const [failing, refused] = await Promise.all([
      batchOf(fine, line("other quiet id", "failing")),
      batchOf(fine, fine, line("b", "fine", { model: "quiet model" }), '{"quiet": line'),
    ]);
    const chat = "/v1/chat/completions";
    const statuses = await Promise.all([
      statusOf(chat, { model: "m", messages: told("1"), quiet: "quiet value" }),
      statusOf(chat, { model: "m", messages: told("2"), temperature: "quiet value" }),
      statusOf(chat, { model: "quiet model", messages: told("3") }),
      statusOf(chat, { model: "p", messages: told("failing") }),
      statusOf("/predictions/p", { text: "quiet words, failing" }),
      statusOf("/v1/audio/transcriptions", { file: "quiet file" }),
      statusOf("/predictions/p?quiet=query", { text: "fine" }),
    ]);
    expect(statuses).toEqual([400, 400, 404, 500, 503, 400, 200]);
    expect(await statusOf("/predictions/p", { text: "quiet words, deadly" })).toBe(500);
    const state = async ({ id }: { id: string }) => (await client.batches.retrieve(id)).status;
    await expect.poll(() => state(refused)).toBe("failed");
    await expect.poll(() => state(failing)).toBe("completed");
    await expect.poll(server.log).toContain(`${failing.id} is completed (answered 1, failed 1)`);
    expect(server.log()).toContain(`${refused.id} has failed (code duplicate_custom_id, line 2)`);
    // A text of the predictor's own.
    expect(server.log()).toContain("p: the predictor failed with this row: not acceptable");
    // The token, too.
    expect(server.log()).not.toContain("quiet");
  });

  it("listens where others reach it only with tokens, or where it is told to", () => {
    const folder = serveFolder();
    writeFileSync(join(folder, "serve.yaml"), JSON.stringify({ models: fake() }));
    const listen = ["--listen", "0.0.0.0:0"];
    const run = spawnSync(
      process.execPath,
      [sluiceProgram, "serve", "-c", "serve.yaml", ...listen],
      { cwd: folder, encoding: "utf8" },
    );
    expect([run.status, run.stderr]).toEqual([64, expect.stringContaining("listen.inference")]);
    expect(run.stderr).toContain("SERVER_INVALID");
  });

  it("names a wrong key of its file, with its line", () => {
    const folder = serveFolder();
    writeFileSync(join(folder, "serve.yaml"), "models:\n  m: fake\nlimit:\n  maxTries: 3\n");
    const run = spawnSync(process.execPath, [sluiceProgram, "serve", "-c", "serve.yaml"], {
      ...{ cwd: folder, encoding: "utf8" },
    });
    expect(run.status).toBe(64);
    expect(run.stderr).toContain(
      "SERVER_INVALID: the server's settings are not valid: limit: is not a key here; did you mean limits? (serve.yaml:3, field limit)",
    );
    expect(run.stderr).not.toContain("job");
  });

  it("takes models by flags, beside those of its file", async () => {
    const folder = serveFolder();
    writeFileSync(
      join(folder, "echo.mjs"),
      "export const predict = (batch) => batch.map(() => 1);",
    );
    const flags = ["--model", "flagged=fake", "--model", "predictor:./echo.mjs", "--no-access-log"];
    const server = await startServe(folder, { models: fake() }, {}, { flags });
    const { data } = await clientOf(server).models.list();
    expect(data.map(({ id }) => id)).toEqual(["m", "flagged", "echo"]);
    const answer = await clientOf(server).chat.completions.create({
      ...say("x"),
      model: "flagged",
    });
    expect(answer.model).toBe("flagged");
    const address = server.baseUrl.replace("/v1", "/predictions/echo");
    expect(await (await fetch(address, { method: "POST", body: "{}" })).json()).toBe(1);
    expect(server.log()).not.toContain("/predictions/echo");
  });

  it("starts neither without a model nor with two of one name", () => {
    const serve = (...flags: string[]) =>
      spawnSync(process.execPath, [sluiceProgram, "serve", ...flags], {
        ...{ cwd: serveFolder(), encoding: "utf8" },
      });
    const [none, twice] = [serve(), serve("--model", "fake", "--model", "fake")];
    expect([none.status, none.stderr]).toEqual([64, expect.stringContaining("give --model")]);
    expect([twice.status, twice.stderr]).toEqual([64, expect.stringContaining("the name fake")]);
  });
});

describe("sluice serve, against clients that mean no good", () => {
  const raw = async (server: Served, text: string, waitMs = 5000) => {
    const { hostname, port } = new URL(server.baseUrl);
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    let reply = "";
    socket.on("data", (chunk) => {
      reply += chunk.toString();
    });
    socket.write(text);
    await Promise.race([once(socket, "close"), pause(waitMs)]);
    const isClosed = socket.destroyed;
    socket.destroy();
    return { reply, isClosed };
  };

  it("bounds bodies, headers, slow senders and connections, and answers the others", async () => {
    const server = await startServe(serveFolder(), {
      models: fake(),
      limits: { maxBodyBytes: 10_000, requestArrivalTimeoutMs: 1000, maxConnections: 20 },
    });
    const client = clientOf(server);
    const large = await failureOf(client.chat.completions.create(say("x".repeat(20_000))));
    expect(large).toMatchObject({ status: 413, code: "request_too_large" });

    const post = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
    const flood = await raw(server, `${post}x-flood: ${"y".repeat(40_000)}\r\n\r\n`);
    expect(flood.reply).toMatch(/^HTTP\/1\.1 4\d\d /);
    const isJson = "content-type: application/json\r\n";
    // Node looks for slow senders every 30 s, unless told otherwise.
    const slow = await raw(server, `${post}${isJson}content-length: 100\r\n\r\n{`, 20_000);
    expect(slow).toMatchObject({ isClosed: true });
    const broken = await raw(server, "NOT HTTP\r\n\r\n");
    expect(broken.reply).toMatch(/^HTTP\/1\.1 400 /);

    const idle = Array.from({ length: 40 }, () => {
      const { hostname, port } = new URL(server.baseUrl);
      return connect(Number(port), hostname).on("error", () => {});
    });
    const refused = () => idle.filter((socket) => socket.destroyed).length;
    await expect.poll(refused).toBeGreaterThanOrEqual(20);
    for (const socket of idle) socket.destroy();
    // Their places are free once the server has seen that they left.
    const answers = async () => {
      const reply = await fetch(`${server.baseUrl}/models`).catch(() => undefined);
      return reply?.status;
    };
    await expect.poll(answers).toBe(200);
    expect((await client.chat.completions.create(say("still there?"))).choices).toHaveLength(1);
  });

  it("ends what is in work when it is stopped, and refuses what waits", async () => {
    const folder = serveFolder();
    const gated = `import { existsSync } from "node:fs";
      export async function predict() {
        while (!existsSync("go")) await new Promise((later) => setTimeout(later, 20));
        return ["said"];
      }`;
    writeFileSync(join(folder, "gated.mjs"), gated);
    const model = { engine: "predictor", module: "./gated.mjs", maxBatchRows: 1 };
    const server = await startServe(folder, { models: { m: model } });
    const client = clientOf(server);
    const working = client.chat.completions.create(say("1"));
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    const waiting = failureOf(client.chat.completions.create(say("2")));
    await untilRequests(server, "m", { inFlight: 1, waiting: 1 });
    const code = server.end("SIGTERM");
    expect((await waiting).status).toBe(503);
    writeFileSync(join(folder, "go"), "");
    expect((await working).choices).toHaveLength(1);
    expect(await code).toBe(0);
  });

  it("ends at once while its models are loaded, and the next one starts", async () => {
    const folder = serveFolder();
    const port = await freePort();
    const listen = {
      inference: `127.0.0.1:${port}`,
      management: "127.0.0.1:0",
      metrics: "127.0.0.1:0",
    };
    const model = { engine: "predictor", module: "./endless.mjs" };
    writeFileSync(
      join(folder, "endless.mjs"),
      "await new Promise((go) => setTimeout(go, 600_000));",
    );
    writeFileSync(join(folder, "serve.yaml"), JSON.stringify({ models: { m: model }, listen }));
    const parameters = [sluiceProgram, "serve", "-c", "serve.yaml"];
    const child = spawn(process.execPath, parameters, { cwd: folder, stdio: "ignore" });
    onTestFinished(() => void child.kill("SIGKILL"));
    const alive = () =>
      fetch(`http://127.0.0.1:${port}/livez`).then(
        ({ ok }) => ok,
        () => false,
      );
    await expect.poll(alive).toBe(true);
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    // By the signal itself: one that drains would end with 0.
    expect(await ended).toEqual([null, "SIGTERM"]);
    const next = await startServe(folder, { models: fake() });
    expect((await clientOf(next).models.list()).data).toHaveLength(1);
  });

  it("has its data directory alone, until it ends or is killed", async () => {
    const folder = serveFolder();
    const firstStartMs = performance.now();
    const first = await startServe(folder, { models: fake() });
    const firstMs = performance.now() - firstStartMs;
    const second = () => startServe(folder, { models: fake() });
    await expect(second()).rejects.toThrow(
      `a server of this folder is running already: process ${first.pid} on `,
    );
    expect((await clientOf(first).models.list()).data).toHaveLength(1);
    await first.end("SIGKILL");
    const startMs = performance.now();
    const next = await second();
    // As long as any start; the heartbeat of another machine would be watched for 10 s.
    expect(performance.now() - startMs).toBeLessThan(firstMs + 10_000);
    const servers = join(folder, "sluice-data", "servers");
    // A heartbeat that is just written has a temporary name.
    const names = readdirSync(servers).filter((name) => !name.startsWith("."));
    expect(names.sort()).toEqual(["000002.heartbeat", "000002.json"]);
    expect(await next.end("SIGTERM")).toBe(0);

    // Another machine takes over from one that was paused for too long: the first must end.
    const last = await second();
    const record = JSON.parse(readFileSync(join(servers, "000003.json"), "utf8")) as object;
    const other = { ...record, number: 4, id: "other", host: "elsewhere", pid: 1 };
    writeFileSync(join(servers, "000004.json"), JSON.stringify(other));
    await vi.waitFor(() => expect(last.log()).toContain("process 1 on elsewhere"), 20_000);
    expect(await last.end("SIGCONT")).toBe(64);
    await expect(fetch(last.baseUrl)).rejects.toThrow("fetch failed");
  });
});
