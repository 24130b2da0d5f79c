import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import OpenAI from "openai";
import { describe, expect, it, onTestFinished } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { limits } from "../../src/foundation/limits.ts";
import { type ReceivedRequest, startFakeServer } from "../../src/testing/fake-server.ts";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { root } from "../meta/source-tree.ts";
import { type Collector, type ExportedSpan, listening, startCollector } from "../otlp-collector.ts";
import { sluiceModule } from "../sluice-program.ts";
import { serveFolder, startServe, untilRequests } from "./served.ts";
import { begun, chat, fake, isOver, until } from "./served-batches.ts";

const execute = promisify(execFile);

const traceId = "0af7651916cd43dd8448eb211c80319c";
const clientSpan = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${clientSpan}-01`;
const secret = "sk-very-secret-key";
const words = "tell me of the pelican";

/** Of exports as JSON, soon. */
const asJson = { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_BSP_SCHEDULE_DELAY: "100" };
const exportingTo = ({ endpoint }: Collector) => ({
  ...asJson,
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
});

const named = (spans: readonly ExportedSpan[], name: string) =>
  spans.filter((span) => span.name === name);

/** Names of a span and of those above it. */
function pathOf(span: ExportedSpan, spans: readonly ExportedSpan[]): string[] {
  const above = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return [span.name, ...(above ? pathOf(above, spans) : [span.parentSpanId])];
}

/** A provider that keeps what it gets. */
async function startProvider() {
  const requests: ReceivedRequest[] = [];
  const server = await startFakeServer({
    behave(request) {
      if (request.method === "POST") requests.push(request);
      return undefined;
    },
  });
  onTestFinished(() => server.close());
  return { baseUrl: server.baseUrl, requests };
}

function runFolder(job: JsonObject, rows: number): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-telemetry-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const lines = Array.from({ length: rows }, (_, id) => JSON.stringify({ id, text: words }));
  writeFileSync(join(folder, "rows.jsonl"), `${lines.join("\n")}\n`);
  const common = {
    input: "rows.jsonl",
    prompt: "Say {{ id }} {{ text }}",
    output: { path: "out" },
  };
  writeFileSync(join(folder, "job.json"), JSON.stringify({ ...common, ...job }));
  return folder;
}

const runJob = ["run", "-c", "job.json", "--quiet"];

describe("a traced server", () => {
  it("gives each request a span below its client's, with its wait and its model", async () => {
    const collector = await startCollector();
    const server = await startServe(
      serveFolder(),
      { models: fake() },
      {
        ...exportingTo(collector),
        OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer ${secret}`,
        OTEL_SERVICE_NAME: "answers",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
      },
    );
    const defaultHeaders = { traceparent, tracestate: "vendor=1" };
    const client = new OpenAI({ baseURL: server.baseUrl, apiKey: secret, defaultHeaders });
    const messages = [{ role: "user", content: words }] as const;
    const asked = { model: "m", messages: [...messages], max_tokens: 5 };
    const answer = await client.chat.completions.create(asked);
    for await (const _ of await client.chat.completions.create({ ...asked, stream: true }));
    await expect(client.chat.completions.create({ ...asked, model: "x" })).rejects.toThrow();
    await fetch(`${server.addresses.metrics}/metrics`);
    const route = "POST /v1/chat/completions";
    const spans = await collector.until((all) => named(all, route).length === 3);
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    const [first, streamed, refused] = named(spans, route);
    expect(first).toMatchObject({
      ...{ kind: 2, parentSpanId: clientSpan, isFailed: false },
      attributes: {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "user_agent.original": expect.stringMatching(/^OpenAI\/JS/),
      },
      resource: {
        "service.name": "answers",
        "service.version": "0.1.0",
        "deployment.environment.name": "test",
      },
    });
    expect(refused!.attributes["http.response.status_code"]).toBe(404);
    for (const { spanId } of [first!, streamed!]) {
      const below = spans.filter(({ parentSpanId }) => parentSpanId === spanId);
      expect(below.map(({ name }) => name)).toEqual(["queue", "chat m"]);
    }
    const [model, streamedModel] = named(spans, "chat m");
    expect(model!.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 5,
      "gen_ai.usage.input_tokens": answer.usage!.prompt_tokens,
      "gen_ai.usage.output_tokens": answer.usage!.completion_tokens,
    });
    expect(streamedModel!.attributes["gen_ai.response.time_to_first_chunk"]).toBeGreaterThan(0);
    expect(collector.headers[0]!.authorization).toBe(`Bearer ${secret}`);
    const bytes = Buffer.concat(collector.bodies).toString();
    for (const text of [words, answer.choices[0]!.message.content!, secret]) {
      expect(bytes).not.toContain(text);
    }
  });

  it("ends the span of a request whose client leaves before its answer", async () => {
    const collector = await startCollector();
    const models = { m: { engine: "fake", latencyMs: 30_000 } };
    const server = await startServe(serveFolder(), { models }, exportingTo(collector));
    const leaving = new AbortController();
    const messages = [{ role: "user", content: words }];
    const asked = fetch(`${server.baseUrl}/chat/completions`, {
      ...{ method: "POST", headers: { "content-type": "application/json", traceparent } },
      ...{ body: JSON.stringify({ model: "m", messages }), signal: leaving.signal },
    });
    asked.catch(() => {});
    await untilRequests(server, "m", { inFlight: 1, waiting: 0 });
    leaving.abort();
    const route = "POST /v1/chat/completions";
    const [span] = named(await collector.until((all) => named(all, route).length === 1), route);
    expect(span).toMatchObject({ isFailed: true, attributes: { "error.type": "CLIENT_GONE" } });
  });

  it("carries one trace from the client over a batch to the provider's request", async () => {
    const [collector, provider] = [await startCollector(), await startProvider()];
    const { baseUrl } = provider;
    const model = { engine: "openai", name: "far", baseUrl, apiKeyEnv: "FAR_KEY" };
    const environment = { ...exportingTo(collector), FAR_KEY: secret };
    const server = await startServe(serveFolder(), { models: { m: model } }, environment);
    const defaultHeaders = { traceparent };
    const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", defaultHeaders });
    const batch = await begun(client, [chat("a"), chat("b")]);
    await until(client, batch.id, isOver);
    const requestRoute = "POST /batches/:batch/v1/chat/completions";
    // Server, coordinator and worker export each on its own.
    const isOut = (all: readonly ExportedSpan[]) =>
      ["run", "task", "POST /v1/batches"].every((name) => named(all, name).length === 1) &&
      ["chat far", requestRoute].every((name) => named(all, name).length === 2) &&
      named(all, "chat m").length === 4;
    const spans = await collector.until(isOut);
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    expect(provider.requests).toHaveLength(2);
    for (const { headers } of provider.requests) {
      const [, id, parent] = String(headers.traceparent).split("-");
      expect(id).toBe(traceId);
      const sent = spans.find(({ spanId }) => spanId === parent)!;
      expect(sent).toMatchObject({ kind: 3, attributes: { "http.response.status_code": 200 } });
      expect(pathOf(sent, spans)).toEqual([
        // What the server sends, for a row that the worker of the batch sent to it.
        ...["chat far", "chat m", requestRoute],
        ...["chat m", "task", "run", "POST /v1/batches", clientSpan],
      ]);
    }
    expect(Buffer.concat(collector.bodies).toString()).not.toMatch(/Say a|Say b|sk-very/);
  });

  it("links the span of a batch to each of the requests in it", async () => {
    const collector = await startCollector();
    const folder = serveFolder();
    const code = `import { existsSync } from "node:fs";
    export async function predict(rows) {
      while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 20));
      return rows.map(() => "done");
    }`;
    writeFileSync(join(folder, "predict.mjs"), code);
    const model = { engine: "predictor", module: "./predict.mjs", maxBatchRows: 8 };
    const server = await startServe(folder, { models: { m: model } }, exportingTo(collector));
    const ask = async () => {
      const body = JSON.stringify({ text: words });
      const headers = { "content-type": "application/json" };
      await fetch(`${server.addresses.inference}/predictions/m`, { method: "POST", headers, body });
    };
    const answers = Array.from({ length: 5 }, ask);
    await untilRequests(server, "m", { inFlight: 5, waiting: 0 });
    writeFileSync(join(folder, "go"), "");
    await Promise.all(answers);
    const spans = await collector.until((all) => named(all, "prediction m").length === 5);
    const batches = named(spans, "batch");
    const linked = batches.flatMap(({ links }) => links.map(({ spanId }) => spanId));
    expect(linked.sort()).toEqual(
      named(spans, "prediction m")
        .map(({ spanId }) => spanId)
        .sort(),
    );
    expect(Math.max(...batches.map(({ links }) => links.length))).toBeGreaterThanOrEqual(4);
    // Each request came in a trace of its own.
    expect(new Set(named(spans, "prediction m").map((span) => span.traceId)).size).toBe(5);
  });
});

describe("a traced run", () => {
  it("has spans of the call, of each task and of some requests, below its caller", async () => {
    const [collector, provider] = [await startCollector(), await startProvider()];
    const model = {
      engine: "openai",
      name: "far",
      baseUrl: provider.baseUrl,
      apiKeyEnv: "FAR_KEY",
    };
    const folder = runFolder({ model, shard: { rows: 40 }, workers: { max: 1 } }, 120);
    const environment = { ...exportingTo(collector), FAR_KEY: secret, TRACEPARENT: traceparent };
    const ended = await runSluice(runJob, folder, environment);
    expect(ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining("span") });
    const { spans } = collector;
    const [run] = named(spans, "run");
    expect(run).toMatchObject({
      ...{ traceId, parentSpanId: clientSpan },
      attributes: { "sluice.run.rows": 120, "sluice.run.answered_rows": 120 },
    });
    const tasks = named(spans, "task");
    expect(tasks.map(({ attributes }) => attributes["sluice.task.index"]).sort()).toEqual([
      0, 1, 2,
    ]);
    for (const task of tasks) {
      expect(task).toMatchObject({ traceId, parentSpanId: run!.spanId, isFailed: false });
      expect(task.attributes).toMatchObject({ "sluice.task.outcome": "committed" });
    }
    const requests = named(spans, "chat far");
    for (const span of requests) expect(pathOf(span, spans).slice(1, 3)).toEqual(["task", "run"]);
    // The others carry the trace too, and say that nobody records them.
    const flags = provider.requests.map(({ headers }) => {
      const [, id, parent, flag] = String(headers.traceparent).split("-");
      expect(id).toBe(traceId);
      if (flag === "01") expect(requests.some(({ spanId }) => spanId === parent)).toBe(true);
      else expect(tasks.some(({ spanId }) => spanId === parent)).toBe(true);
      return flag;
    });
    expect(flags).toHaveLength(120);
    const recorded = flags.filter((flag) => flag === "01").length;
    expect(recorded).toBe(requests.length);
    expect(recorded).toBeGreaterThanOrEqual(limits.tracedRequestsPerSecond);
    expect(recorded).toBeLessThan(120);
    const bytes = Buffer.concat(collector.bodies).toString();
    for (const text of [words, secret]) expect(bytes).not.toContain(text);
  });

  it("shows an attempt whose worker died, and the next one", async () => {
    const collector = await startCollector();
    const model = { engine: "fake", latencyMs: 100, capacity: 2, countFile: "asked" };
    const folder = runFolder({ model, workers: { max: 1 } }, 100);
    const run = startSluice(["run", "-c", "job.json", "--json"], folder, exportingTo(collector));
    const asked = join(folder, "asked");
    await run.workerStarted;
    while (!existsSync(asked) || statSync(asked).size === 0) await pause(20);
    process.kill(run.workers[0]!, "SIGKILL");
    expect((await run.ended).code).toBe(0);
    const tasks = named(collector.spans, "task");
    const died = tasks.find(({ isFailed }) => isFailed);
    expect(died).toMatchObject({ attributes: { "error.type": "ENGINE_DIED" } });
    const index = died!.attributes["sluice.task.index"];
    const next = tasks.find(
      ({ isFailed, attributes }) => !isFailed && attributes["sluice.task.index"] === index,
    );
    expect(next).toMatchObject({ attributes: { "sluice.task.outcome": "committed" } });
    expect(BigInt(next!.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(died!.endTimeUnixNano));
  });

  it("records nothing below a caller that is not recorded, and passes the trace on", async () => {
    const [collector, provider] = [await startCollector(), await startProvider()];
    const model = { engine: "openai", name: "far", baseUrl: provider.baseUrl };
    const folder = runFolder({ model }, 3);
    const TRACEPARENT = `${traceparent.slice(0, -2)}00`;
    const ended = await runSluice(runJob, folder, { ...exportingTo(collector), TRACEPARENT });
    expect(ended.code).toBe(0);
    expect(collector.bodies).toEqual([]);
    const passed = provider.requests.map(({ headers }) => String(headers.traceparent));
    expect(passed).toHaveLength(3);
    for (const each of passed) expect(each).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  });

  it("uses the tracing of a program that has its own, and starts none beside it", async () => {
    const collector = await startCollector();
    const folder = runFolder({ model: { engine: "fake" } }, 3);
    const { resolve } = createRequire(join(root, "package.json"));
    const [api, sdk] = ["api", "sdk-trace-base"].map((name) => resolve(`@opentelemetry/${name}`));
    const program = `
      import { context, trace } from ${JSON.stringify(api)};
      import { BasicTracerProvider, SimpleSpanProcessor, InMemorySpanExporter }
        from ${JSON.stringify(sdk)};
      import { run } from ${JSON.stringify(sluiceModule)};
      const exporter = new InMemorySpanExporter();
      const spanProcessors = [new SimpleSpanProcessor(exporter)];
      trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
      await run("job.json");
      const spans = exporter.getFinishedSpans();
      console.log(JSON.stringify(spans.map(({ name, instrumentationScope: { name: scope } }) =>
        [name, scope])));
    `;
    writeFileSync(join(folder, "program.mjs"), program);
    const env = { ...process.env, ...exportingTo(collector) };
    const { stdout } = await execute(process.execPath, ["program.mjs"], { cwd: folder, env });
    expect(JSON.parse(stdout)).toEqual([
      ["task", "sluice"],
      ["run", "sluice"],
    ]);
    expect(named(collector.spans, "run")).toEqual([]);
  });
});

describe("a collector that fails", () => {
  const model = { engine: "fake" };

  it("neither slows nor fails a run, and is told of once", async () => {
    const folder = runFolder({ model }, 20);
    const plainStartMs = performance.now();
    expect((await runSluice([...runJob, "--output", "plain"], folder)).code).toBe(0);
    const plainMs = performance.now() - plainStartMs;
    // Nobody listens there.
    const environment = { ...asJson, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" };
    const startMs = performance.now();
    const ended = await runSluice(runJob, folder, environment);
    expect(ended.code).toBe(0);
    expect(ended.stderr.match(/ECONNREFUSED/g)).toHaveLength(1);
    // With waits between tries, the coordinator and its worker would each use up their limit.
    expect(performance.now() - startMs).toBeLessThan(plainMs + 2 * limits.maxTelemetryFlushMs);
  });

  it("that never answers keeps a process for the limit at most", async () => {
    const endpoint = await listening(createServer(() => {}));
    const folder = runFolder({ model }, 20);
    // Without the limit each process would wait as long as these say.
    const patience = { OTEL_EXPORTER_OTLP_TIMEOUT: "300000", OTEL_BSP_EXPORT_TIMEOUT: "300000" };
    const environment = { ...asJson, ...patience, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
    const mostMs = 100_000;
    const startMs = performance.now();
    const ended = await runSluice(runJob, folder, environment);
    expect(ended.code).toBe(0);
    expect(performance.now() - startMs).toBeLessThan(mostMs);
    const server = await startServe(serveFolder(), { models: fake() }, environment);
    await fetch(`${server.baseUrl}/models`);
    const endMs = performance.now();
    expect(await server.end("SIGTERM")).toBe(0);
    expect(performance.now() - endMs).toBeLessThan(mostMs);
  });

  it("gets the spans of a later try", async () => {
    const collector = await startCollector();
    let refusals = 2;
    const busy = createServer((request, reply) => {
      request.resume();
      if (refusals-- > 0) return void reply.writeHead(503, { "retry-after": "0" }).end();
      reply.writeHead(307, { location: collector.endpoint }).end();
    });
    const endpoint = await listening(busy);
    const folder = runFolder({ model: { engine: "fake", latencyMs: 200, capacity: 1 } }, 20);
    const environment = { ...asJson, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
    const ended = await runSluice(runJob, folder, environment);
    // A redirect is not followed: it could name anybody.
    expect(ended.stderr).toContain("spans are not exported: it answered 307");
    expect(refusals).toBeLessThan(0);
  });
});

describe("what variables ask for in vain", () => {
  it("is said once, by the command and not by its workers", async () => {
    const folder = runFolder({ model: { engine: "fake" } }, 3);
    const ended = await runSluice(runJob, folder, {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_PROPAGATORS: "b3",
    });
    expect(ended.code).toBe(0);
    for (const said of [
      /traces are not exported by OTEL_EXPORTER_OTLP_PROTOCOL=grpc; set http\/protobuf/g,
      /OTEL_METRICS_EXPORTER=otlp has no effect: sluice serve has metrics at \/metrics/g,
      /OTEL_PROPAGATORS=b3 is not supported; it may be tracecontext or none/g,
    ]) {
      expect(ended.stderr.match(said)).toHaveLength(1);
    }
  });

  it("is nothing with OTEL_SDK_DISABLED, and spans are lines of stderr for console", async () => {
    const folder = runFolder({ model: { engine: "fake" } }, 3);
    const console = { OTEL_TRACES_EXPORTER: "console" };
    const off = await runSluice(runJob, folder, { ...console, OTEL_SDK_DISABLED: "true" });
    expect(off).toMatchObject({ code: 0, stderr: expect.not.stringContaining("resourceSpans") });
    const on = await runSluice([...runJob, "--output", "other"], folder, console);
    const line = on.stderr.split("\n").find((each) => each.startsWith('{"resourceSpans"'))!;
    expect(line).toContain('"name":"run"');
    expect(on.stdout.trim().split("\n")).toHaveLength(1);
  });
});
