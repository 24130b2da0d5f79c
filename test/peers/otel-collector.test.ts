import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import OpenAI from "openai";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { findOtelCollector } from "../../scripts/otel-collector.ts";
import { freePort } from "../free-ports.ts";
import { serveFolder, startServe } from "../integration/served.ts";
import { fake } from "../integration/served-batches.ts";
import { type ExportedSpan, spansOf } from "../otlp-collector.ts";

const collector = findOtelCollector();

/** Starts the collector; it writes what it has understood to a file. */
async function startReal(folder: string) {
  const [port, file] = [await freePort(), join(folder, "spans.jsonl")];
  const configuration = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { file: { path: file, flush_interval: "100ms" } },
    service: {
      telemetry: { metrics: { level: "none" } },
      pipelines: { traces: { receivers: ["otlp"], exporters: ["file"] } },
    },
  };
  writeFileSync(join(folder, "collector.yaml"), JSON.stringify(configuration));
  const child = spawn(collector!, ["--config", `file:${join(folder, "collector.yaml")}`]);
  onTestFinished(() => void child.kill("SIGKILL"));
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  while (!log.includes("Everything is ready")) {
    if (child.exitCode !== null) throw new Error(log);
    await pause(50);
  }
  const spans = (): ExportedSpan[] => {
    const text = existsSync(file) ? readFileSync(file, "utf8") : "";
    return text.split("\n").filter(Boolean).flatMap(spansOf);
  };
  return { endpoint: `http://127.0.0.1:${port}`, spans };
}

describe("a collector of OpenTelemetry", () => {
  const missing = "the collector is not here: npm run peers -- otel-collector";
  beforeEach((context) => context.skip(collector === undefined, missing));

  it.each(["http/protobuf", "http/json"])("understands what %s says", async (protocol) => {
    const folder = serveFolder();
    const { endpoint, spans } = await startReal(folder);
    const server = await startServe(
      folder,
      { models: fake() },
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
        OTEL_BSP_SCHEDULE_DELAY: "100",
      },
    );
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const defaultHeaders = { traceparent: `00-${traceId}-b7ad6b7169203331-01` };
    const client = new OpenAI({ baseURL: server.baseUrl, apiKey: "none", defaultHeaders });
    const messages = [{ role: "user", content: "Hello" }] as const;
    await client.chat.completions.create({ model: "m", messages: [...messages] });
    await server.end("SIGTERM");
    for (let looks = 0; spans().length < 3 && looks < 100; looks++) await pause(50);
    const [queue, model, request] = spans();
    expect([queue, model, request].map((span) => span?.name)).toEqual([
      ...["queue", "chat m", "POST /v1/chat/completions"],
    ]);
    expect(request).toMatchObject({ traceId, parentSpanId: "b7ad6b7169203331", kind: 2 });
    expect(model!.parentSpanId).toBe(request!.spanId);
    expect(model!.attributes["gen_ai.usage.output_tokens"]).toBeGreaterThan(0);
    expect(request!.resource).toMatchObject({ "service.name": "sluice" });
    expect(server.log()).not.toContain("exported");
  });
});
