import { describe, expect, it } from "vitest";
import { asksForTelemetry } from "../../src/telemetry/asked.ts";
import { telemetrySettings } from "../../src/telemetry/settings.ts";

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

describe("asksForTelemetry", () => {
  it.each([
    [{}, false],
    [{ OTEL_SERVICE_NAME: "x", OTEL_TRACES_SAMPLER: "always_on" }, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: " " }, false],
    [endpoint, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:4318/v1/traces" }, true],
    [{ OTEL_TRACES_EXPORTER: "console" }, true],
    // To say that it has no effect.
    [{ OTEL_METRICS_EXPORTER: "otlp" }, true],
    [{ ...endpoint, OTEL_SDK_DISABLED: "TRUE" }, false],
    [{ ...endpoint, OTEL_SDK_DISABLED: "no" }, true],
  ])("%j: %s", (environment, expected) => {
    expect(asksForTelemetry(environment as Record<string, string>)).toBe(expected);
  });
});

describe("telemetrySettings", () => {
  it("exports by OTLP where an address is given, in protobuf unless asked for JSON", () => {
    expect(telemetrySettings(endpoint)).toEqual({
      ...{ exporters: ["otlp"], protocol: "http/protobuf", propagates: true, notices: [] },
    });
    const json = { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" };
    expect(telemetrySettings({ ...endpoint, ...json }).protocol).toBe("http/json");
    const traces = { ...json, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/protobuf" };
    expect(telemetrySettings({ ...endpoint, ...traces }).protocol).toBe("http/protobuf");
  });

  it("takes the exporters that are named, also several and none", () => {
    const exportersOf = (names: string) =>
      telemetrySettings({ ...endpoint, OTEL_TRACES_EXPORTER: names }).exporters;
    expect(exportersOf("otlp, console")).toEqual(["otlp", "console"]);
    expect(exportersOf("console")).toEqual(["console"]);
    expect(exportersOf("none")).toEqual([]);
  });

  it("names whatever it does not do", () => {
    const { exporters, propagates, notices } = telemetrySettings({
      ...endpoint,
      OTEL_TRACES_EXPORTER: "otlp,zipkin",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_PROPAGATORS: "b3,baggage",
      OTEL_METRICS_EXPORTER: "prometheus",
      OTEL_LOGS_EXPORTER: "otlp",
    });
    expect([exporters, propagates]).toEqual([[], false]);
    expect(notices.map((notice) => notice.split(" ")[0])).toEqual([
      ...["OTEL_TRACES_EXPORTER=zipkin", "traces"],
      ...["OTEL_PROPAGATORS=b3", "OTEL_PROPAGATORS=baggage"],
      ...["OTEL_METRICS_EXPORTER=prometheus", "OTEL_LOGS_EXPORTER=otlp"],
    ]);
    const silent = { OTEL_METRICS_EXPORTER: "none", OTEL_LOGS_EXPORTER: "none" };
    expect(telemetrySettings({ ...endpoint, ...silent }).notices).toEqual([]);
  });

  it("neither takes nor passes on traces with OTEL_PROPAGATORS=none", () => {
    const settings = telemetrySettings({ ...endpoint, OTEL_PROPAGATORS: "none" });
    expect(settings).toMatchObject({ propagates: false, notices: [] });
  });
});
