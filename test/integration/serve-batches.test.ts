import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  createReadStream,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import OpenAI from "openai";
import { describe, expect, it, onTestFinished } from "vitest";
import { installed } from "../../scripts/installing.ts";
import { findOpenaiPython } from "../../scripts/openai-python.ts";
import type { Manifest } from "../../src/run/seal/manifest.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { bucket, missingS3Server, S3Server } from "../s3-server.ts";
import { serveFolder, startServe, untilRequests } from "./served.ts";
import {
  type Batch,
  begun,
  chat,
  childrenOf,
  clientOf,
  fake,
  idsOf,
  isOver,
  jsonl,
  linesOf,
  rows,
  tryRead,
  until,
  url,
  verified,
} from "./served-batches.ts";
import { killServerProcesses, startServerProcess } from "./server-process.ts";

/** Lists the results of batches in pages of one, and deletes each before the next page. */
async function deletedOneByOne(client: OpenAI, ids: readonly (string | null | undefined)[]) {
  const found = [];
  for await (const each of client.files.list({ purpose: "batch_output", limit: 1 })) {
    found.push(each.id);
    await client.files.delete(each.id);
  }
  expect(found.toSorted()).toEqual(ids.toSorted());
  await expect(client.files.retrieve(found[0]!)).rejects.toMatchObject({ status: 404 });
}

/** Compares the results of a batch with its manifest, by what a client can fetch alone. */
async function provenByManifest(client: OpenAI, { id, ...batch }: Batch) {
  const { rows, merged }: Manifest = await client.get(`/batches/${id}/manifest`);
  const { total, completed: answered, failed } = batch.request_counts!;
  expect(rows).toMatchObject({ total, answered, failed });
  const output = Buffer.from(
    await (await client.files.content(batch.output_file_id!)).arrayBuffer(),
  );
  const sha256 = createHash("sha256").update(output).digest("hex");
  expect(merged).toMatchObject({ sha256, bytes: output.length });
}

describe("batches by OpenAI's client", () => {
  it("go from upload to results, and every list, download and deletion works", async () => {
    const folder = serveFolder();
    const server = await startServe(folder, { models: fake() });
    const client = clientOf(server);
    const lines = [...rows(20), chat("hot", { temperature: 99 })];
    writeFileSync(join(folder, "in.jsonl"), jsonl(lines));
    const file = await client.files.create({
      file: createReadStream(join(folder, "in.jsonl")),
      purpose: "batch",
      expires_after: { anchor: "created_at", seconds: 3600 },
    });
    expect(file).toMatchObject({ object: "file", filename: "in.jsonl", purpose: "batch" });
    expect(file.expires_at).toBe(file.created_at + 3600);
    expect(file.bytes).toBe(readFileSync(join(folder, "in.jsonl")).length);
    const made = await client.batches.create({
      ...{ input_file_id: file.id, endpoint: url, completion_window: "24h" },
      metadata: { team: "blue" },
      output_expires_after: { anchor: "created_at", seconds: 7200 },
    });
    expect(made).toMatchObject({
      object: "batch",
      status: "validating",
      metadata: { team: "blue" },
    });
    expect(made.expires_at).toBe(made.created_at + 86_400);
    // The batch has its own input.
    await client.files.delete(file.id);
    const batch = await until(client, made.id, isOver);
    expect(batch).toMatchObject({
      ...{ status: "completed", model: "m", errors: null, metadata: { team: "blue" } },
      request_counts: { total: 21, completed: 20, failed: 1 },
    });
    expect(batch.usage!.total_tokens).toBeGreaterThan(20);
    for (const at of ["in_progress_at", "finalizing_at", "completed_at"] as const) {
      expect(batch[at]).toBeGreaterThanOrEqual(batch.created_at);
    }
    for (const id of [batch.output_file_id!, batch.error_file_id!]) {
      const { created_at: from, expires_at: to } = await client.files.retrieve(id);
      expect(to).toBe(from + 7200);
    }
    const answers = await linesOf(client, batch.output_file_id);
    expect(idsOf(answers)).toEqual(idsOf(rows(20)));
    expect(Object.keys(answers[0])).toEqual(["id", "custom_id", "response", "error"]);
    expect(answers[0]).toMatchObject({
      id: expect.stringMatching(/^batch_req_[0-9a-f]{32}$/),
      response: { status_code: 200, body: { object: "chat.completion", model: "m" } },
      error: null,
    });
    const errors = await linesOf(client, batch.error_file_id);
    expect(errors).toMatchObject([
      {
        custom_id: "hot",
        response: {
          status_code: 400,
          body: { error: { type: "invalid_request_error", param: "temperature" } },
        },
        error: null,
      },
    ]);
    await verified(folder, batch);
    await provenByManifest(client, batch);

    await deletedOneByOne(client, [batch.output_file_id, batch.error_file_id]);
    const listed = [];
    for await (const each of client.batches.list({ limit: 1 })) listed.push(each.id);
    expect(listed).toEqual([batch.id]);
    await expect(client.batches.cancel(batch.id)).rejects.toMatchObject({ status: 409 });
    expect(await server.end("SIGTERM")).toBe(0);
  });

  it("have the server's own status and error for a row that it refuses", async () => {
    const limits = { maxBodyBytes: 10_000 };
    const server = await startServe(serveFolder(), { models: fake(), limits });
    const client = clientOf(server);
    const long = chat("long", { messages: [{ role: "user", content: "x".repeat(20_000) }] });
    const batch = await until(client, (await begun(client, [chat("a"), long])).id, isOver);
    expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
    const online = await fetch(`${server.baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(long.body),
    });
    const body = await online.json();
    expect([online.status, body]).toMatchObject([413, { error: { code: "request_too_large" } }]);
    const errors = await linesOf(client, batch.error_file_id);
    const id = expect.stringMatching(/^batch_req_[0-9a-f]{32}$/);
    const request_id = errors[0].id.replace("batch_", "");
    const response = { status_code: 413, request_id, body };
    expect(errors).toEqual([{ id, custom_id: "long", response, error: null }]);
  });

  it("fail with the lines that are wrong", async () => {
    const server = await startServe(serveFolder(), {
      models: { ...fake(), n: { engine: "fake" } },
    });
    const client = clientOf(server);
    const { body: _, ...bodiless } = chat("no body");
    const lines = [
      ...[chat("fine"), "{ broken", bodiless, { ...chat("other"), url: "/v1/embeddings" }],
      ...[chat("fine"), chat("far", { model: "gpt-4o" }), chat("mixed", { model: "n" })],
      chat("streams", { stream: true }),
    ];
    const batch = await until(client, (await begun(client, lines)).id, isOver);
    expect(batch).toMatchObject({ status: "failed", output_file_id: null, error_file_id: null });
    expect(batch.errors!.data!.map(({ code, line, param }) => [line, code, param])).toEqual([
      [2, "invalid_json_line", null],
      [3, "missing_required_parameter", "body"],
      [4, "invalid_url", "url"],
      [5, "duplicate_custom_id", "custom_id"],
      [6, "model_not_found", "body.model"],
      [7, "mismatched_model", "body.model"],
      [8, "streaming_unsupported", "body.stream"],
    ]);
    const lost = await client.batches.create({
      ...{ input_file_id: "file-unknown", endpoint: url, completion_window: "24h" },
    });
    const failed = await until(client, lost.id, isOver);
    expect(failed.errors!.data).toMatchObject([{ code: "invalid_request", param: "file_id" }]);
    const bad = { ...lost, endpoint: "/v1/images" };
    for (const asked of [
      bad,
      { ...lost, completion_window: "1h" },
      { ...lost, metadata: { a: 1 } },
    ])
      await expect(client.batches.create(asked as never)).rejects.toMatchObject({ status: 400 });
  });

  it("can be cancelled: what was answered is kept, the rest is named", async () => {
    const folder = serveFolder();
    const server = await startServe(folder, { models: fake({ capacity: 2, latencyMs: 40 }) });
    const client = clientOf(server);
    const { id } = await begun(client, rows(500));
    await until(client, id, ({ request_counts: counts }) => counts!.completed > 5);
    const cancelling = await client.batches.cancel(id);
    expect(cancelling).toMatchObject({ status: "cancelling" });
    expect(cancelling.request_counts!.completed).toBeGreaterThan(5);
    const batch = await until(client, id, isOver);
    expect(batch.status).toBe("cancelled");
    const answers = await linesOf(client, batch.output_file_id);
    const errors = await linesOf(client, batch.error_file_id);
    expect(answers.length).toBe(batch.request_counts!.completed);
    expect(answers.length).toBeGreaterThan(5);
    expect(answers.length).toBeLessThan(500);
    expect([...idsOf(answers), ...idsOf(errors)].toSorted()).toEqual(idsOf(rows(500)).toSorted());
    expect(errors[0]).toMatchObject({ response: null, error: { code: "batch_cancelled" } });
    await verified(folder, batch);
    expect((await client.batches.cancel(id)).status).toBe("cancelled");
  });

  it("expire at the end of their window", async () => {
    const folder = serveFolder();
    const server = await startServe(folder, {
      models: fake({ capacity: 1, latencyMs: 200 }),
      limits: { batchWindowMs: 8000, maxBatchesInProgress: 1 },
    });
    const client = clientOf(server);
    const [first, second] = [await begun(client, rows(300)), await begun(client, rows(3))];
    const batch = await until(client, first.id, isOver);
    expect(batch.status).toBe("expired");
    expect(batch.expired_at).toBeGreaterThanOrEqual(batch.expires_at!);
    const { completed, failed } = batch.request_counts!;
    expect(completed + failed).toBe(300);
    const errors = await linesOf(client, batch.error_file_id);
    const message = "This request could not be executed before the completion window expired.";
    expect(errors.at(-1)).toMatchObject({
      ...{ custom_id: "r299", response: null, error: { code: "batch_expired", message } },
    });
    // It never had its turn.
    const other = await until(client, second.id, isOver);
    expect(other).toMatchObject({ status: "expired", request_counts: { completed: 0, failed: 3 } });
    await verified(folder, other);
  });
});

/** Notes what it begins with, and answers that when a file has as many letters. */
const gated = `
  import { appendFileSync, statSync } from "node:fs";
  let begun = 0;
  export async function predict([{ messages }]) {
    const number = ++begun;
    appendFileSync("begun", messages[0].content + "\\n");
    while (statSync("passed").size < number) await new Promise((go) => setTimeout(go, 10));
    return ["said"];
  }`;

/** A batch on a server of such a model, whose first row has begun. */
async function gatedBatch(count: number) {
  const folder = serveFolder();
  writeFileSync(join(folder, "gated.mjs"), gated);
  const [begunFile, passedFile] = [join(folder, "begun"), join(folder, "passed")];
  for (const path of [begunFile, passedFile]) writeFileSync(path, "");
  const model = { engine: "predictor", module: "./gated.mjs", maxBatchRows: 1 };
  const server = await startServe(folder, { models: { m: model } });
  const client = clientOf(server);
  const { id } = await begun(client, rows(count));
  const texts = () => readFileSync(begunFile, "utf8").split("\n").slice(0, -1);
  await expect.poll(() => texts().length).toBe(1);
  const letPass = (more: number) => appendFileSync(passedFile, ".".repeat(more));
  return { server, client, id, texts, letPass };
}

it("an online request waits for no row that has not begun", async () => {
  const { server, client, id, texts, letPass } = await gatedBatch(500);
  let passed = 0;
  /** Lets one end, and waits until the next one has begun. */
  const pass = async () => {
    letPass(1);
    passed++;
    await expect.poll(() => texts().length).toBe(passed + 1);
  };
  for (let row = 0; row < 4; row++) await pass();
  const hi = { model: "m", messages: [{ role: "user" as const, content: "Hi" }] };
  for (let round = 0; round < 5; round++) {
    const answer = client.chat.completions.create(hi);
    await untilRequests(server, "m", { inFlight: 1, waiting: 1 });
    await pass();
    expect(texts().at(-1)).toBe("Hi");
    await pass();
    await answer;
  }
  await client.batches.cancel(id);
  letPass(500);
  const batch = await until(client, id, isOver);
  const errors = await linesOf(client, batch.error_file_id);
  expect(new Set(errors.map(({ error }) => error?.code))).toEqual(new Set(["batch_cancelled"]));
});

it("rows come in by an address and a token that nobody else has", async (context) => {
  context.skip(process.platform !== "linux", "the environment of workers is read from /proc");
  const folder = serveFolder();
  const sha256 = createHash("sha256").update("secret").digest("hex");
  const server = await startServe(folder, {
    models: fake({ capacity: 1, latencyMs: 20 }),
    tokens: [{ name: "me", sha256 }],
  });
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "secret" });
  const { id } = await begun(client, rows(500));
  await until(client, id, ({ request_counts: counts }) => counts!.completed > 2);
  const run = join(folder, `sluice-data/batches/${id}/output.jsonl.sluice/_sluice`);
  const { job } = JSON.parse(readFileSync(join(run, "plan.json"), "utf8"));
  const { name: model, baseUrl } = job.model as { name: string; baseUrl: string };
  const statusOf = async (address: string, token: string) => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] });
    return (await fetch(`${address}/chat/completions`, { method: "POST", headers, body })).status;
  };
  expect(await statusOf(server.baseUrl, "secret")).toBe(200);
  expect(await statusOf(baseUrl, "secret")).toBe(401);
  expect(await statusOf(baseUrl, "")).toBe(401);
  const token = childrenOf(server.pid).find(({ batchToken }) => batchToken)!.batchToken!;
  expect(await statusOf(baseUrl, token)).toBe(200);
  const files = await fetch(`${baseUrl}/files`, { headers: { authorization: `Bearer ${token}` } });
  expect(files.status).toBe(404);
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const found = entries.filter((file) => {
    return file.isFile() && tryRead(join(file.parentPath, file.name)).includes(token);
  });
  expect(found).toEqual([]);
  expect(server.log()).not.toContain(token);
  await client.batches.cancel(id);
  await until(client, id, isOver);
});

describe("a server that is gone", () => {
  it("by kill -9 is followed by one that sends each row once", async () => {
    const folder = serveFolder();
    const options = {
      models: fake({ capacity: 4, latencyMs: 30, countFile: join(folder, "asked") }),
    };
    const count = 300;
    let server = await startServe(folder, options);
    const { id } = await begun(clientOf(server), rows(count));
    // `serve-kills.test.ts` kills servers at random moments.
    const kills = [0, 0.5, 1];
    for (const share of kills) {
      const counted = ({ request_counts: counts, status }: Batch) =>
        counts!.completed >= share * count || status === "completed";
      await until(clientOf(server), id, counted);
      await server.end("SIGKILL");
      server = await startServe(folder, options);
    }
    const batch = await until(clientOf(server), id, isOver);
    expect(batch).toMatchObject({
      status: "completed",
      request_counts: { total: count, completed: count, failed: 0 },
    });
    const answers = await linesOf(clientOf(server), batch.output_file_id);
    expect(idsOf(answers)).toEqual(idsOf(rows(count)));
    await verified(folder, batch);
    // A kill loses what was in work, and what was answered a moment ago.
    const asked = readFileSync(join(folder, "asked"), "utf8").trim().split("\n").length;
    expect(asked).toBeLessThanOrEqual(count + kills.length * 16);
  });

  it("by kill -9 while a batch is cancelled is followed by one that names its rows", async () => {
    const folder = serveFolder();
    const options = { models: fake({ capacity: 1, latencyMs: 2000 }) };
    const first = await startServe(folder, options);
    const { id } = await begun(clientOf(first), rows(300));
    await until(clientOf(first), id, ({ request_counts: counts }) => counts!.completed > 0);
    await clientOf(first).batches.cancel(id);
    await first.end("SIGKILL");
    const second = await startServe(folder, options);
    const batch = await until(clientOf(second), id, isOver);
    expect(batch.status).toBe("cancelled");
    const answers = await linesOf(clientOf(second), batch.output_file_id);
    const errors = await linesOf(clientOf(second), batch.error_file_id);
    expect(batch.request_counts).toEqual({
      ...{ total: 300, completed: answers.length, failed: errors.length },
    });
    expect([...idsOf(answers), ...idsOf(errors)].toSorted()).toEqual(idsOf(rows(300)).toSorted());
    await verified(folder, batch);
  });

  it("by SIGTERM stops its runs cleanly, and the next one continues them", async () => {
    const folder = serveFolder();
    const batchDrainTimeoutMs = 30_000;
    const options = {
      models: fake({ capacity: 4, latencyMs: 30 }),
      limits: { batchDrainTimeoutMs },
    };
    const first = await startServe(folder, options);
    const { id } = await begun(clientOf(first), rows(400));
    await until(clientOf(first), id, ({ request_counts: counts }) => counts!.completed > 20);
    const startMs = performance.now();
    expect(await first.end("SIGTERM")).toBe(0);
    // Rows that had not begun would keep their workers that long.
    expect(performance.now() - startMs).toBeLessThan(batchDrainTimeoutMs);
    const run = `sluice-data/batches/${id}/output.jsonl`;
    const { stdout } = await runSluice(["status", run, "--json"], folder);
    expect(JSON.parse(stdout)).toMatchObject({ state: "canceled", reason: "stopped" });
    // A server without the model keeps the batch.
    const other = await startServe(folder, { models: { other: { engine: "fake" } } });
    expect((await clientOf(other).batches.retrieve(id)).status).toBe("in_progress");
    expect(await other.end("SIGTERM")).toBe(0);
    const second = await startServe(folder, options);
    const batch = await until(clientOf(second), id, isOver);
    expect(batch.status).toBe("completed");
    const answers = await linesOf(clientOf(second), batch.output_file_id);
    expect(idsOf(answers)).toEqual(idsOf(rows(400)));
    await verified(folder, batch);
  });
});

it("data may lie in an object store", async (context) => {
  context.skip(missingS3Server !== undefined, missingS3Server ?? "");
  const s3 = await S3Server.start();
  onTestFinished(() => s3.stop());
  const folder = serveFolder();
  const options = {
    models: fake({ capacity: 4, latencyMs: 30 }),
    dataDirectory: `s3://${bucket}/served`,
  };
  const first = await startServe(folder, options, s3.environment);
  const { id } = await begun(clientOf(first), [...rows(200), chat("hot", { temperature: 99 })]);
  await until(clientOf(first), id, ({ request_counts: counts }) => counts!.completed > 20);
  await first.end("SIGKILL");
  const second = await startServe(folder, options, s3.environment);
  const client = clientOf(second);
  const batch = await until(client, id, isOver);
  expect(batch.request_counts).toEqual({ total: 201, completed: 200, failed: 1 });
  expect(idsOf(await linesOf(client, batch.output_file_id))).toEqual(idsOf(rows(200)));
  expect(idsOf(await linesOf(client, batch.error_file_id))).toEqual(["hot"]);
  const content = `${client.baseURL}/files/${batch.output_file_id}/content`;
  const whole = await (await fetch(content)).text();
  const part = await fetch(content, { headers: { range: "bytes=7-1006" } });
  const range = `bytes 7-1006/${whole.length}`;
  expect([part.status, part.headers.get("content-range")]).toEqual([206, range]);
  expect(await part.text()).toBe(whole.slice(7, 1007));
  const run = `s3://${bucket}/served/batches/${id}/output.jsonl`;
  const { code, stdout } = await runSluice(["verify", run], folder, s3.environment);
  expect(code, stdout).toBe(0);
  for await (const file of client.files.list()) await client.files.delete(file.id);
  expect((await client.files.list()).data).toEqual([]);
});

it("vectors and completions have batches too", async () => {
  const { baseUrl } = await startServerProcess();
  onTestFinished(killServerProcesses);
  const served = { engine: "openai", name: "m", baseUrl };
  const client = clientOf(await startServe(serveFolder(), { models: { m: served } }));
  const asked = { "/v1/embeddings": { input: "x" }, "/v1/completions": { prompt: "x" } };
  for (const [endpoint, body] of Object.entries(asked)) {
    const line = { custom_id: "a", method: "POST", url: endpoint, body: { model: "m", ...body } };
    const { id } = await begun(client, [line, { ...line, custom_id: "b" }], endpoint);
    const batch = await until(client, id, isOver);
    expect(batch.request_counts, endpoint).toEqual({ total: 2, completed: 2, failed: 0 });
    const lines = await linesOf(client, batch.output_file_id);
    expect(idsOf(lines)).toEqual(["a", "b"]);
    const { data, choices } = lines[0].response.body;
    expect(typeof (data ? data[0].embedding[0] : choices[0].text)).toBe(data ? "number" : "string");
  }
});

const python = `
import json, sys, time
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none")
file = client.files.create(file=open(sys.argv[2], "rb"), purpose="batch")
assert file.filename == "in.jsonl" and file.status == "processed"
batch = client.batches.create(
    input_file_id=file.id, endpoint="${url}", completion_window="24h", metadata={"a": "b"})
while client.batches.retrieve(batch.id).status != "completed":
    time.sleep(0.1)
batch = client.batches.retrieve(batch.id)
lines = client.files.content(batch.output_file_id).text.splitlines()
assert [each.id for each in client.batches.list(limit=1)] == [batch.id]
second = client.batches.create(
    input_file_id=file.id, endpoint="${url}", completion_window="24h")
assert client.batches.cancel(second.id).status in ("cancelling", "cancelled")
names = [each.id for each in client.files.list(limit=1)]
assert client.files.delete(file.id).deleted
print(json.dumps({"lines": lines, "counts": batch.request_counts.to_dict(), "files": len(names)}))
`;

it("the client for Python does the same", async (context) => {
  await installed("openai-python");
  const found = findOpenaiPython();
  context.skip("missing" in found, "missing" in found ? found.missing : "");
  if ("missing" in found) return;
  const folder = serveFolder();
  const server = await startServe(folder, { models: fake() });
  writeFileSync(join(folder, "in.jsonl"), jsonl(rows(10)));
  const parameters = ["-c", python, server.baseUrl, join(folder, "in.jsonl")];
  const { stdout } = await promisify(execFile)(found.python, parameters);
  const { lines, counts, files } = JSON.parse(stdout);
  expect(idsOf(lines.map((line: string) => JSON.parse(line)))).toEqual(idsOf(rows(10)));
  expect(counts).toEqual({ total: 10, completed: 10, failed: 0 });
  expect(files).toBeGreaterThanOrEqual(2);
});
