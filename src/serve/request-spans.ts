import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Span, Telemetry, TraceContext } from "../foundation/telemetry.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Its span, where the server is traced. */
    trace?: TraceContext;
  }
}

/** What only watches the server is not worth a span. */
const untraced = new Set(["/livez", "/readyz", "/ping", "/metrics"]);

/**
 * Gives each request to a server a span, below that of its client.
 *
 * @param isInner requests without a trace have no span: they come from workers of the server.
 */
export function traceRequests(
  server: FastifyInstance,
  telemetry: Telemetry,
  isInner = false,
): void {
  server.addHook("onRequest", (request, reply, done) => {
    const { headers, method, protocol } = request;
    const route = request.routeOptions.url;
    const parent = telemetry.received(headers.traceparent, headers.tracestate);
    if (untraced.has(route ?? "") || (isInner && !parent)) return done();
    const [path] = request.url.split("?", 1);
    const { hostname, port } = request;
    const span = telemetry.start(route === undefined ? method : `${method} ${route}`, {
      kind: "server",
      parent,
      attributes: {
        "http.request.method": method,
        "http.route": route,
        "url.path": path,
        "url.scheme": protocol,
        "server.address": hostname,
        "server.port": port ?? undefined,
        "network.protocol.version": request.raw.httpVersion,
        "user_agent.original": headers["user-agent"],
        "sluice.request.id": request.id,
      },
    });
    request.trace = span.context;
    // Not the hook `onResponse`: it is not called where the client leaves.
    reply.raw.once("close", () => endSpan(span, request, reply));
    done();
  });
}

function endSpan(span: Span, { caller }: FastifyRequest, { statusCode, raw }: FastifyReply): void {
  span.set({
    "http.response.status_code": statusCode,
    ...(caller && { "sluice.caller": caller.name }),
  });
  if (statusCode >= 500) span.fail(String(statusCode));
  else if (!raw.writableFinished) span.fail("CLIENT_GONE");
  span.end();
}
