import { type ContextManager, DiagLogLevel, diag, type TracerProvider } from "@opentelemetry/api";
import { setGlobalErrorHandler } from "@opentelemetry/core";
import {
  createOtlpNetworkExportDelegate,
  OTLPExporterBase,
} from "@opentelemetry/otlp-exporter-base";
import {
  convertLegacyHttpOptions,
  createOtlpHttpExporterMetrics,
} from "@opentelemetry/otlp-exporter-base/node-http";
import {
  JsonTraceSerializer,
  ProtobufTraceSerializer,
  TraceExporterMetricsHelper,
} from "@opentelemetry/otlp-transformer";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  RandomIdGenerator,
  type SpanExporter,
} from "@opentelemetry/sdk-trace-base";
import type { Clock } from "../foundation/clock.ts";
import { limits } from "../foundation/limits.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";
import type { Telemetry } from "../foundation/telemetry.ts";
import { registry } from "./asked.ts";
import { OtlpTransport } from "./otlp-transport.ts";
import { type TelemetrySettings, telemetrySettings } from "./settings.ts";
import { OtelTelemetry } from "./spans.ts";

export interface TelemetryContext {
  clock: Clock;
  random: Random;
  logger: Logger;
  /** Version of Sluice. */
  software: string;
  pid: number;
  /** Takes the lines of exporter `console`. */
  write(line: string): void;
}

/**
 * Exports the spans of this process as OpenTelemetry's variables say, and logs what they ask for in
 * vain; undefined if they want no spans. Its packages read most of them from the process itself.
 */
export function openTelemetry(
  environment: Readonly<Record<string, string | undefined>>,
  context: TelemetryContext,
): Telemetry | undefined {
  const settings = telemetrySettings(environment);
  for (const notice of settings.notices) context.logger.log("warn", notice);
  return settings.exporters.length === 0 ? undefined : exporting(settings, context);
}

function exporting(settings: TelemetrySettings, context: TelemetryContext): Telemetry {
  const { clock, random, logger, software, pid, write } = context;
  const tell = tellFaults(logger);
  const transports: OtlpTransport[] = [];
  const exporters = settings.exporters.map((name): SpanExporter => {
    if (name === "console") return lineExporter(write);
    const serializer =
      settings.protocol === "http/json" ? JsonTraceSerializer : ProtobufTraceSerializer;
    const type = settings.protocol === "http/json" ? "json" : "x-protobuf";
    const headers = { "content-type": `application/${type}` };
    const sent = convertLegacyHttpOptions({}, "TRACES", "v1/traces", headers);
    const transport = new OtlpTransport(sent, clock, random);
    transports.push(transport);
    const metrics = createOtlpHttpExporterMetrics(
      "otlp_http_span_exporter",
      TraceExporterMetricsHelper,
      sent.url,
      undefined,
    );
    const delegate = createOtlpNetworkExportDelegate(sent, serializer, metrics, transport);
    return new OTLPExporterBase(delegate);
  });
  const ids = new ChosenIds();
  const provider = new BasicTracerProvider({
    idGenerator: ids,
    resource: defaultResource()
      .merge(resourceFromAttributes({ "service.name": "sluice", "service.version": software }))
      .merge(resourceFromAttributes({ "process.pid": pid }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: exporters.map((exporter) => new BatchSpanProcessor(exporter)),
  });
  return new OtelTelemetry(provider.getTracer("sluice", software), {
    propagates: settings.propagates,
    chooseId: (id) => ids.choose(id),
    async close() {
      for (const transport of transports) transport.hurry();
      const end = () => {
        for (const transport of transports) transport.shutdown();
      };
      const cancel = clock.schedule(limits.maxTelemetryFlushMs, end);
      await provider.shutdown().catch(tell);
      cancel();
      end();
    },
  });
}

/** Spans go where the user's own program sends its spans; undefined if it has no tracing. */
export function telemetryOfProgram(software: string): Telemetry | undefined {
  const registered = (globalThis as Record<symbol, unknown>)[registry] as
    | { trace?: TracerProvider; context?: ContextManager }
    | undefined;
  const tracer = registered?.trace?.getTracer("sluice", software);
  const { context: contexts } = registered ?? {};
  return tracer && new OtelTelemetry(tracer, { propagates: true, contexts, async close() {} });
}

/** Random ids, unless the next span's is given. */
class ChosenIds extends RandomIdGenerator {
  choose(id: string): void {
    const random = this.generateSpanId;
    this.generateSpanId = () => {
      this.generateSpanId = random;
      return id;
    };
  }
}

/** Each batch of spans as one line of OTLP's JSON. */
function lineExporter(write: (line: string) => void): SpanExporter {
  return {
    export(spans, done) {
      write(`${Buffer.from(JsonTraceSerializer.serializeRequest(spans) ?? []).toString()}\n`);
      done({ code: 0 });
    },
    async shutdown() {},
  };
}

/** Different faults of the export that are logged. */
const maxFaults = 20;

/** Faults of the export are logged, each once: a collector may be down for days. */
function tellFaults(logger: Logger): (fault: unknown) => void {
  const told = new Set<string>();
  const warn = (message: string) => {
    if (told.has(message) || told.size >= maxFaults) return;
    told.add(message);
    logger.log("warn", message);
  };
  const tell = (fault: unknown) => {
    warn(`spans are not exported: ${fault instanceof Error ? fault.message : String(fault)}`);
  };
  const ignore = () => {};
  setGlobalErrorHandler(tell);
  diag.setLogger(
    { error: warn, warn, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  return tell;
}
