import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { onTestFinished } from "vitest";

/** A span as OTLP's JSON has it, with its attributes as an object. */
export interface ExportedSpan {
  name: string;
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  isFailed: boolean;
  /** Of the process that exported it. */
  resource: Record<string, unknown>;
}

/** A receiver of OTLP over HTTP. */
export interface Collector {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  endpoint: string;
  spans: ExportedSpan[];
  /** Each body as it came. */
  bodies: Buffer[];
  headers: NodeJS.Dict<string | string[]>[];
  /** Resolves once the spans are as wanted. */
  until(isDone: (spans: readonly ExportedSpan[]) => boolean): Promise<ExportedSpan[]>;
}

const longestWaitMs = 30_000;

/** Starts a receiver; it ends with the test. Only bodies of JSON become spans. */
export async function startCollector(): Promise<Collector> {
  const [spans, bodies, headers]: [ExportedSpan[], Buffer[], Collector["headers"]] = [[], [], []];
  const server = createServer(async (request, reply) => {
    const sent = await buffer(request);
    const body = request.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
    bodies.push(body);
    headers.push(request.headers);
    const isJson = request.headers["content-type"] === "application/json";
    if (isJson) spans.push(...spansOf(body.toString()));
    reply.writeHead(200, { "content-type": request.headers["content-type"]! });
    reply.end(isJson ? "{}" : "");
  });
  const endpoint = await listening(server);
  const until: Collector["until"] = async (isDone) => {
    for (let waitedMs = 0; !isDone(spans); waitedMs += 50) {
      if (waitedMs > longestWaitMs) {
        throw new Error(`these spans came: ${spans.map(({ name }) => name).join(", ")}`);
      }
      await pause(50);
    }
    return spans;
  };
  return { endpoint, spans, bodies, headers, until };
}

/** Listens on a free port until the test ends. */
export async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface OtlpValue {
  stringValue?: string;
  intValue?: number | string;
  doubleValue?: number;
  boolValue?: boolean;
  arrayValue?: { values: OtlpValue[] };
}
type OtlpAttributes = { key: string; value: OtlpValue }[];
type OtlpSpan = Omit<ExportedSpan, "attributes"> & {
  attributes?: OtlpAttributes;
  status?: { code?: number };
};

/** The spans of an export in OTLP's JSON. */
export function spansOf(text: string): ExportedSpan[] {
  const { resourceSpans } = JSON.parse(text) as {
    resourceSpans: {
      resource: { attributes: OtlpAttributes };
      scopeSpans: { spans: OtlpSpan[] }[];
    }[];
  };
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ attributes = [], links = [], status, parentSpanId = "", ...span }) => ({
        ...{ ...span, links, parentSpanId, isFailed: status?.code === 2 },
        attributes: objectOf(attributes),
        resource: objectOf(resource.attributes),
      })),
    ),
  );
}

function objectOf(attributes: OtlpAttributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)]));
}

function plain({ arrayValue, intValue, ...others }: OtlpValue): unknown {
  if (arrayValue) return arrayValue.values.map(plain);
  return intValue === undefined ? Object.values(others)[0] : Number(intValue);
}
