import { describe, expect, it } from "vitest";
import { besideIn, isSampled, traceContextOf, unsampled } from "../../src/foundation/telemetry.ts";

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("traceContextOf", () => {
  it("takes a trace context, with its state if that is of a permitted size", () => {
    expect(traceContextOf(traceparent, undefined)).toEqual({ traceparent });
    expect(traceContextOf(traceparent, "a=1")).toEqual({ traceparent, tracestate: "a=1" });
    expect(traceContextOf(traceparent, "")).toEqual({ traceparent });
    expect(traceContextOf(traceparent, "a".repeat(513))).toEqual({ traceparent });
  });

  it.each([
    undefined,
    ["x"],
    "",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    "zz-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  ])("refuses %j", (text) => {
    expect(traceContextOf(text, undefined)).toBeUndefined();
  });
});

it("a context is changed in its flag and in its span alone", () => {
  expect(isSampled({ traceparent })).toBe(true);
  const quiet = unsampled({ traceparent, tracestate: "a=1" });
  expect(isSampled(quiet)).toBe(false);
  expect(quiet).toEqual({ traceparent: `${traceparent.slice(0, -2)}00`, tracestate: "a=1" });
  const beside = besideIn({ traceparent }, "1234567890abcdef");
  expect(beside.traceparent).toBe("00-0af7651916cd43dd8448eb211c80319c-1234567890abcdef-01");
});
