import { describe, expect, it } from "vitest";
import {
  type GpuRequest,
  gpuRequest,
  gpuRequestPattern,
} from "../../../src/run/job/gpu-request.ts";

describe("gpuRequest", () => {
  it.each<[string, GpuRequest]>([
    ["2", { count: 2 }],
    [" 16 ", { count: 16 }],
    ["l40s", { kind: "l40s" }],
    ["A100-80GB:8", { kind: "A100-80GB", count: 8 }],
    ["4090:1", { kind: "4090", count: 1 }],
    ["NVIDIA L40S:2", { kind: "NVIDIA L40S", count: 2 }],
  ])("reads %j", (text, request) => {
    expect(text).toMatch(gpuRequestPattern);
    expect(gpuRequest(text)).toEqual(request);
  });

  it.each(["", " ", "0", "l40s:", "l40s:0", ":2", "l40s:2:1", "l40s:two", "a\nb"])(
    "is not offered %j",
    (text) => expect(text).not.toMatch(gpuRequestPattern),
  );
});
