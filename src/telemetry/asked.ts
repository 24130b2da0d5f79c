/** What every command needs to know of telemetry; everything else is loaded when it is used. */

/** Variables that say where spans go. */
export const endpoints = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/** Variables that turn telemetry on, or ask for what it does not do. */
const triggers = [
  ...endpoints,
  ...["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"],
];

/** Whether the variables of a process ask for telemetry: without, nothing of it is loaded. */
export function asksForTelemetry(
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  if (environment.OTEL_SDK_DISABLED?.trim().toLowerCase() === "true") return false;
  return triggers.some((name) => environment[name]?.trim());
}

/** The place where programs register OpenTelemetry, whatever its package's version. */
export const registry = Symbol.for("opentelemetry.js.api.1");

/** Whether somebody has loaded OpenTelemetry into this process, with its tracing. */
export function isProgramTraced(): boolean {
  const registered = (globalThis as Record<symbol, { trace?: unknown } | undefined>)[registry];
  return registered?.trace !== undefined;
}
