import { describe, expect, it } from "vitest";
import { limits } from "../../../src/foundation/limits.ts";
import { isSampled } from "../../../src/foundation/telemetry.ts";
import { attemptSpanId, RequestTraces } from "../../../src/run/execute/request-traces.ts";
import { handClock } from "../../hand-clock.ts";

const trace = "0af7651916cd43dd8448eb211c80319c";
const run = { traceparent: `00-${trace}-b7ad6b7169203331-01`, tracestate: "vendor=1" };

describe("RequestTraces", () => {
  it("records the first requests of each second, and passes the trace on with the others", () => {
    const { clock, pass } = handClock();
    const traces = new RequestTraces({ ...run, hasTasks: true }, clock);
    const recordedOf = (count: number) =>
      Array.from({ length: count }, () => traces.next("a1")).filter(isSampled).length;
    expect(recordedOf(1000)).toBe(limits.tracedRequestsPerSecond);
    pass(1000);
    expect(recordedOf(3)).toBe(3);
    const later = Array.from({ length: 20 }, () => traces.next("a1")).at(-1);
    const id = attemptSpanId("a1");
    expect(later).toEqual({ traceparent: `00-${trace}-${id}-00`, tracestate: "vendor=1" });
  });

  it("puts requests below their attempt, or below the run where that cannot be known", () => {
    const { clock } = handClock();
    const known = new RequestTraces({ ...run, hasTasks: true }, clock);
    expect(known.next("a1").traceparent).toBe(`00-${trace}-${attemptSpanId("a1")}-01`);
    expect(known.next("a2").traceparent).toBe(`00-${trace}-${attemptSpanId("a2")}-01`);
    expect(known.next()).toEqual(run);
    expect(new RequestTraces({ ...run, hasTasks: false }, clock).next("a1")).toEqual(run);
  });

  it("records nothing below a run that is not recorded", () => {
    const traceparent = `00-${trace}-b7ad6b7169203331-00`;
    const traces = new RequestTraces({ traceparent, hasTasks: true }, handClock().clock);
    expect(isSampled(traces.next("a1"))).toBe(false);
  });
});
