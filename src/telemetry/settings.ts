import type { Environment } from "../foundation/subprocess.ts";
import { endpoints } from "./asked.ts";

/** What variables of OpenTelemetry ask of a process. */
export interface TelemetrySettings {
  /** Where its spans go; none: nothing is traced. */
  exporters: readonly ("otlp" | "console")[];
  protocol: "http/protobuf" | "http/json";
  /** Whether trace contexts are read from requests and sent with them. */
  propagates: boolean;
  /** What was asked for and is not done, in words. */
  notices: readonly string[];
}

/**
 * Reads the variables that decide whether and where spans go. OpenTelemetry's own packages read the
 * others: addresses, headers, sampler, limits and resource.
 *
 * @example
 * telemetrySettings({ OTEL_TRACES_EXPORTER: "console" }).exporters; // ["console"]
 */
export function telemetrySettings(environment: Environment): TelemetrySettings {
  const notices: string[] = [];
  const read = (name: string) => environment[name]?.trim() || undefined;
  const listOf = (name: string) =>
    read(name)
      ?.split(",")
      .map((each) => each.trim());
  const hasEndpoint = endpoints.some((name) => read(name));
  const asked = listOf("OTEL_TRACES_EXPORTER") ?? (hasEndpoint ? ["otlp"] : []);
  const known = ["otlp", "console", "none"];
  for (const name of asked) {
    if (known.includes(name)) continue;
    notices.push(`OTEL_TRACES_EXPORTER=${name} is not supported; it may be ${known.join(", ")}`);
  }
  const protocol =
    read("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ??
    read("OTEL_EXPORTER_OTLP_PROTOCOL") ??
    "http/protobuf";
  const isHttp = protocol === "http/protobuf" || protocol === "http/json";
  if (!isHttp && asked.includes("otlp")) {
    const meant = "set http/protobuf, whose usual port is 4318";
    notices.push(`traces are not exported by OTEL_EXPORTER_OTLP_PROTOCOL=${protocol}; ${meant}`);
  }
  const propagators = listOf("OTEL_PROPAGATORS") ?? ["tracecontext"];
  for (const name of propagators) {
    if (["tracecontext", "none"].includes(name)) continue;
    notices.push(`OTEL_PROPAGATORS=${name} is not supported; it may be tracecontext or none`);
  }
  notices.push(...signalNotices(read));
  return {
    exporters: (["otlp", "console"] as const).filter(
      (name) => asked.includes(name) && (isHttp || name !== "otlp"),
    ),
    protocol: protocol === "http/json" ? protocol : "http/protobuf",
    propagates: propagators.includes("tracecontext"),
    notices,
  };
}

function signalNotices(read: (name: string) => string | undefined): string[] {
  const metrics = read("OTEL_METRICS_EXPORTER") ?? "none";
  const logs = read("OTEL_LOGS_EXPORTER") ?? "none";
  return [
    ...(metrics === "none"
      ? []
      : [`OTEL_METRICS_EXPORTER=${metrics} has no effect: sluice serve has metrics at /metrics`]),
    ...(logs === "none" ? [] : [`OTEL_LOGS_EXPORTER=${logs} has no effect: logs go to stderr`]),
  ];
}
