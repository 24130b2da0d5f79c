import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import { noUsage } from "../../../src/foundation/inference.ts";
import { RunSpans } from "../../../src/run/status/run-spans.ts";
import { OtelTelemetry } from "../../../src/telemetry/spans.ts";

function traced() {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const telemetry = new OtelTelemetry(provider.getTracer("test"), {
    propagates: true,
    async close() {},
  });
  const caller = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
  return { spans: new RunSpans(telemetry, "job", caller), exporter };
}

const begun = { type: "task-start", rows: 5, resumed: 0, resumedUsage: noUsage } as const;
const over = { type: "task-end", done: 5, failed: 0, errors: {}, usage: noUsage } as const;

describe("RunSpans", () => {
  it("gives an attempt elsewhere the times at which it began and ended there", () => {
    const { spans, exporter } = traced();
    const at = (second: number) => `2026-01-02T03:04:0${second}.500Z`;
    const where = { task: 3, worker: "far" };
    spans.hear({ ...begun, ...where, attempt: "a1", ...{ time: at(1) } });
    spans.hear({ ...over, ...where, outcome: "committed", ...{ time: at(7) } });
    const [task] = exporter.getFinishedSpans();
    expect(task).toMatchObject({ name: "task", status: { code: 0 } });
    expect([task!.startTime, task!.endTime]).toEqual(
      [at(1), at(7)].map((time) => [Math.floor(Date.parse(time) / 1000), 500_000_000]),
    );
  });

  it("ends all attempts of a worker that is gone, and those that are open at the end", () => {
    const { spans, exporter } = traced();
    spans.hear({ ...begun, task: 0, worker: "w0" });
    spans.hear({ ...begun, task: 1, worker: "w0" });
    spans.hear({ ...begun, task: 2, worker: "w1" });
    const error = { code: "ENGINE_STALLED", message: "words of a row", hint: "" } as const;
    spans.hear({ type: "worker-end", worker: "w0", error });
    spans.end(undefined, { code: "RUN_CANCELED" });
    const ended = exporter.getFinishedSpans();
    const facts = ended.map(({ name, attributes }) => [
      ...[name, attributes["sluice.task.index"], attributes["error.type"]],
    ]);
    expect(facts).toEqual([
      ["task", 0, "ENGINE_STALLED"],
      ["task", 1, "ENGINE_STALLED"],
      ["task", 2, "canceled"],
      ["run", undefined, "RUN_CANCELED"],
    ]);
    const [run] = ended.slice(-1);
    expect(run!.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
    expect(JSON.stringify(ended.map(({ attributes }) => attributes))).not.toContain("words");
  });

  it("says whether workers can know the ids of its attempts", () => {
    expect(traced().spans.context.hasTasks).toBe(false);
  });
});
