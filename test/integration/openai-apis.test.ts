import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { type FakeServer, fakeVector, startFakeServer } from "../../src/testing/fake-server.ts";
import { runSluice } from "../chaos/sluice-process.ts";
import { fileListener, webServer } from "../data/sources/web-server.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-apis-"));
let server: FakeServer;
beforeAll(async () => {
  server = await startFakeServer({
    behave: ({ body }) => {
      const image = /"content":\[\{"type":"image_url","image_url":\{"url":"data:([^"]*)"\}\}/.exec(
        body,
      );
      if (!image) return undefined;
      const [mediaType, data] = image[1]!.split(";base64,");
      const words = Buffer.from(data!, "base64").toString();
      return { kind: "answer", text: `saw ${words} as ${mediaType}` };
    },
  });
});
afterAll(async () => {
  await server.close();
  rmSync(root, { recursive: true, force: true });
});
let folders = 0;

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(join(folder, "data"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const jsonLines = (values: readonly JsonObject[]) =>
  values.map((value) => `${JSON.stringify(value)}\n`).join("");
const linesOf = (path: string) =>
  readFileSync(path, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as JsonObject);

async function runJob(
  folder: string,
  job: JsonObject,
  environment: Record<string, string> = {},
): Promise<JsonObject[]> {
  const model = { engine: "openai", name: "m", baseUrl: server.baseUrl, maxInFlight: 4 };
  const rest = { output: "out.jsonl", workers: { max: 1 } };
  writeFileSync(join(folder, "job.json"), JSON.stringify({ model, ...rest, ...job }));
  const ran = await runSluice(["run", "-c", "job.json", "--quiet"], folder, environment);
  expect(ran.code, ran.stderr).toBe(0);
  expect(await runSluice(["verify", "out.jsonl"], folder)).toMatchObject({ code: 0 });
  return linesOf(join(folder, "out.jsonl"));
}

describe("jobs over a server", () => {
  it("embed texts, many by one request", async () => {
    const rows = Array.from({ length: 300 }, (_, at) => ({ id: at, text: `number ${at}` }));
    const folder = folderWith({ "data/rows.jsonl": jsonLines(rows) });
    const paths: string[] = [];
    // While it answers, there is time to read more texts for the next request.
    const slow = await startFakeServer({
      delayMs: 50,
      behave({ method, path }) {
        if (method === "POST") paths.push(path);
        return undefined;
      },
    });
    onTestFinished(() => slow.close());
    const results = await runJob(folder, {
      model: { engine: "openai", name: "m", baseUrl: slow.baseUrl, maxInFlight: 4 },
      input: "data/rows.jsonl",
      prompt: { prompt: "{{ text }}", api: "embedding" },
    });
    expect(results).toEqual(rows.map((row) => ({ ...row, answer: fakeVector(row.text) })));
    expect(new Set(paths)).toEqual(new Set(["/v1/embeddings"]));
    expect(paths.length).toBeLessThan(60);
  });

  it("transcribe files that lie beside the input", async () => {
    const folder = folderWith({
      "data/one.wav": "sound one",
      "data/two.wav": "sound two",
      "data/rows.jsonl": jsonLines([{ path: "one.wav" }, { path: "two.wav" }, { path: "no.wav" }]),
    });
    const results = await runJob(folder, {
      input: "data/rows.jsonl",
      prompt: { api: "transcription", file: "{{ path }}" },
      maxFailedRows: 1,
    });
    expect(results.map(({ answer }) => answer)).toEqual(["heard sound one", "heard sound two"]);
    const failed = await runSluice(["results", "out.jsonl", "--failed"], folder);
    expect(failed.stdout).toContain("FILE_UNREADABLE");
    expect(failed.stdout).toContain(join(folder, "data/no.wav"));
  });

  it("transcribe files of a web server, which are copied for as long as need be", async () => {
    const files: Record<string, string> = {
      "/data/one.wav": "sound one",
      "/two.wav": "sound two",
      "/data/rows.jsonl": jsonLines([{ path: "one.wav" }, { path: "../two.wav" }, { path: "no" }]),
    };
    const web = await webServer((request, response) => {
      const content = files[request.url!.replace(/\?.*/, "")];
      if (content === undefined) return void response.writeHead(404).end();
      fileListener(() => Buffer.from(content))(request, response);
    });
    const folder = folderWith({});
    mkdirSync(join(folder, "tmp"));
    const named = [{ path: `${web.origin}/data/rows.jsonl?signature=s1gned` }];
    const itself = { path: `${web.origin}/data/one.wav` };
    const results = await runJob(
      folder,
      {
        input: [...named, itself],
        prompt: { api: "transcription", file: "{{ path }}" },
        maxFailedRows: 1,
      },
      { TMPDIR: join(folder, "tmp") },
    );
    const heard = ["heard sound one", "heard sound two", "heard sound one"];
    expect(results.map(({ answer }) => answer)).toEqual(heard);
    const failed = await runSluice(["results", "out.jsonl", "--failed"], folder);
    expect(failed.stdout).toContain("FILE_UNREADABLE");
    expect(failed.stdout).toContain(`${web.origin}/data/no`);
    expect(failed.stdout).not.toContain("s1gned");
    const left = readdirSync(join(folder, "tmp")).filter((name) => name.startsWith("sluice-"));
    expect(left).toEqual([]);
  });

  it("show images of this machine and of a web server, as rows and beside rows", async () => {
    const web = await webServer(fileListener(() => Buffer.from("clouds")));
    const folder = folderWith({
      "data/a.png": "a lake",
      "data/b.jpg": "hills",
      "data/rows.jsonl": jsonLines([
        { path: "b.jpg" },
        { path: `${web.origin}/c.webp` },
        { path: "a.txt" },
        { path: "none.png" },
      ]),
    });
    const prompt = { system: "Be brief.", prompt: "What is on {{ path }}?", image: "{{ path }}" };
    const results = await runJob(folder, {
      input: [{ path: "data/a.png" }, { path: "data/rows.jsonl" }],
      allow: { privateNetworks: true },
      prompt,
      maxFailedRows: 2,
    });
    expect(results.map(({ answer }) => answer)).toEqual([
      "saw a lake as image/png",
      "saw hills as image/jpeg",
      "saw clouds as image/webp",
    ]);
    const failed = await runSluice(["results", "out.jsonl", "--failed"], folder);
    const letters = failed.stdout.trimEnd().split("\n");
    expect(letters).toEqual([
      expect.stringContaining("images end in .png, .jpg"),
      expect.stringContaining(`${join(folder, "data/none.png")}: ENOENT`),
    ]);
    const plan = ["plan", "--set", "model.engine=fake", "-c", "fake.json"];
    const job = { input: "data/a.png", output: "out-2", prompt, model: { engine: "fake" } };
    writeFileSync(join(folder, "fake.json"), JSON.stringify(job));
    const refused = await runSluice(plan, folder);
    expect(refused.stderr).toContain("engine fake takes no images in prompts");
  });

  it("fail the row alone whose address is dead, malformed, or without credentials", async () => {
    const web = await webServer(fileListener(() => Buffer.from("clouds")));
    const bad = ["https://[no/a.png", "s3://bucket/a.png", "http://no-such-host.invalid/a.png"];
    const paths = [`${web.origin}/a.png`, ...bad, `${web.origin}/b.png`];
    const folder = folderWith({ "data/rows.jsonl": jsonLines(paths.map((path) => ({ path }))) });
    const results = await runJob(
      folder,
      {
        input: "data/rows.jsonl",
        prompt: { prompt: "What is on it?", image: "{{ path }}" },
        maxFailedRows: bad.length,
        allow: { privateNetworks: true },
      },
      { AWS_EC2_METADATA_DISABLED: "true", AWS_REGION: "us-east-1", HOME: folder },
    );
    expect(results.map(({ answer }) => answer)).toEqual([
      "saw clouds as image/png",
      "saw clouds as image/png",
    ]);
    const { stdout } = await runSluice(["results", "out.jsonl", "--failed"], folder);
    const letters = stdout.trimEnd().split("\n");
    expect(letters).toHaveLength(bad.length);
    for (const [at, path] of bad.entries()) {
      expect(letters[at]).toContain("FILE_UNREADABLE");
      expect(letters[at]).toContain(path);
    }
    expect(letters[1]).toContain("no credentials were found");
  });

  it("transcribe files that are the input themselves", async () => {
    const folder = folderWith({ "data/one.wav": "sound one", "data/two.wav": "sound two" });
    const results = await runJob(folder, {
      input: "data/*.wav",
      prompt: { api: "transcription", file: "{{ path }}" },
    });
    expect(results.map(({ name, size, answer }) => [name, size, answer])).toEqual([
      ["one.wav", 9, "heard sound one"],
      ["two.wav", 9, "heard sound two"],
    ]);
  });

  it("answer a batch whose lines have all three addresses", async () => {
    const bodies: [string, JsonObject][] = [
      ["/v1/embeddings", { input: "one text" }],
      ["/v1/embeddings", { input: ["first", "second"] }],
      ["/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }] }],
      ["/v1/completions", { prompt: "Once" }],
    ];
    const lines = bodies.map(([url, body], at) => ({
      ...{ custom_id: `line-${at}`, method: "POST", url, body: { model: "m", ...body } },
    }));
    const folder = folderWith({ "in.jsonl": jsonLines(lines) });
    const model = ["--model", "openai:m", "--base-url", server.baseUrl];
    const args = ["run-batch", "-i", "in.jsonl", "-o", "out.jsonl", ...model, "--quiet"];
    expect(await runSluice(args, folder)).toMatchObject({ code: 0 });
    const responses = linesOf(join(folder, "out.jsonl")).map(
      ({ response }) => (response as JsonObject).body as JsonObject,
    );
    const embedding = (text: string, index: number) => ({
      ...{ object: "embedding", index, embedding: fakeVector(text) },
    });
    expect(responses.slice(0, 2)).toEqual([
      {
        ...{ object: "list", model: "m", data: [embedding("one text", 0)] },
        usage: { prompt_tokens: 2, total_tokens: 2 },
      },
      {
        ...{ object: "list", model: "m", data: [embedding("first", 0), embedding("second", 1)] },
        usage: { prompt_tokens: 2, total_tokens: 2 },
      },
    ]);
    expect(responses.slice(2).map(({ object }) => object)).toEqual([
      "chat.completion",
      "text_completion",
    ]);
  });

  it("refuse vectors and transcripts of an engine that makes none", async () => {
    const folder = folderWith({ "rows.jsonl": jsonLines([{ text: "a" }]) });
    for (const prompt of [
      { prompt: "{{ text }}", api: "embedding" },
      { file: "{{ text }}", api: "transcription" },
    ]) {
      const job = { input: "rows.jsonl", model: "fake", prompt, output: "none" };
      writeFileSync(
        join(folder, "job.json"),
        JSON.stringify({ ...job, model: { engine: "fake" } }),
      );
      const { code, stderr } = await runSluice(["run", "-c", "job.json"], folder);
      expect([code, stderr]).toEqual([64, expect.stringContaining(`cannot do api: ${prompt.api}`)]);
    }
  });
});

describe("what was found out of an endpoint", () => {
  it("is told with the end of tasks, and in the manifest", async () => {
    const rows = Array.from({ length: 100 }, (_, at) => ({ text: `row ${at}` }));
    const folder = folderWith({ "rows.jsonl": jsonLines(rows) });
    const { baseUrl } = server;
    const job = {
      ...{ input: "rows.jsonl", prompt: "{{ text }}", output: "out", workers: { max: 1 } },
      model: { engine: "openai", name: "m", baseUrl },
    };
    writeFileSync(join(folder, "job.json"), JSON.stringify(job));
    const { code, stderr } = await runSluice(["run", "-c", "job.json", "--json"], folder);
    expect(code, stderr).toBe(0);
    const events = stderr
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as JsonObject);
    const told = events.filter(({ type }) => type === "task-end").map(({ choices }) => choices);
    const found = { endpoint: baseUrl, by: "goodput", refused: 0 };
    const highest = expect.any(Number) as number;
    const choices = { endpoints: [{ ...found, highest, maxInFlight: highest }] };
    expect(told[0]).toEqual(choices);
    const manifest = JSON.parse(readFileSync(join(folder, "out/_manifest.json"), "utf8"));
    const last = told.findLast((each) => each !== undefined);
    expect(manifest).toMatchObject({ engine: { name: "openai", choices: last } });
  });
});

describe("the keys of several endpoints", () => {
  it("are in no file of a run and in nothing it says", async () => {
    // So many that some of them surely are for either endpoint.
    const rows = Array.from({ length: 40 }, (_, at) => ({ text: `row ${at}` }));
    const folder = folderWith({ "rows.jsonl": jsonLines(rows) });
    const seen: unknown[] = [];
    const refusing = await startFakeServer({
      behave: ({ headers }) => {
        seen.push(headers.authorization);
        return { kind: "status", status: 401, body: `no ${headers.authorization}` };
      },
    });
    const endpoints = [
      { baseUrl: refusing.baseUrl, apiKeyEnv: "KEY_ONE" },
      { baseUrl: server.baseUrl, apiKeyEnv: "KEY_TWO" },
    ];
    const job = {
      ...{ input: "rows.jsonl", prompt: "{{ text }}", output: "out", keepJournals: true },
      model: { engine: "openai", name: "m", endpoints, maxInFlight: 2 },
    };
    writeFileSync(join(folder, "job.json"), JSON.stringify(job));
    const keys = { KEY_ONE: "sk-first-secret", KEY_TWO: "sk-second-secret" };
    const words = ["run", "-c", "job.json", "--json"];
    const { code, stdout, stderr } = await runSluice(words, folder, keys);
    await refusing.close();
    expect(code).toBe(0);
    expect(seen).toContain("Bearer sk-first-secret");
    expect(stderr).toContain("the endpoint is left out for now");
    const found = await runSluice(["results", "out"], folder);
    const told = stdout + stderr + found.stdout;
    expect(told).not.toMatch(/sk-(first|second)/);
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      expect(readFileSync(join(entry.parentPath, entry.name), "utf8")).not.toMatch(
        /sk-(first|second)/,
      );
    }
  });
});
