import { describe, expect, it } from "vitest";
import { readProgramLine, reportedError } from "../../../src/engines/command/protocol.ts";

describe("readProgramLine", () => {
  it("reads what a program says as it gets ready, and passes over what is none of it", () => {
    expect(readProgramLine('{"ready": 1}')).toEqual({ type: "ready", protocol: 1 });
    const line = '{"ready": 1, "name": "m", "device": "cuda:0", "maxBatchRows": 4, "x": 1}';
    expect(readProgramLine(line)).toEqual({
      ...{ type: "ready", protocol: 1, name: "m", device: "cuda:0", maxBatchRows: 4 },
    });
    const odd = '{"ready": 2, "name": null, "maxBatchRows": 0}';
    expect(readProgramLine(odd)).toEqual({ type: "ready", protocol: 2 });
  });

  it("reads answers, with results of whatever kind", () => {
    expect(readProgramLine('{"batch": 3, "results": [{"text": "a"}]}')).toEqual({
      ...{ type: "results", batch: 3, results: [{ text: "a" }] },
    });
    expect(readProgramLine('{"batch": 3}')).toMatchObject({ type: "results", results: undefined });
    expect(readProgramLine('{"batch": 3, "error": "no"}')).toEqual({
      ...{ type: "error", batch: 3, error: { message: "no" } },
    });
  });

  it("tells what is no protocol", () => {
    const others = ["Loading 50%", "[1, 2]", "3", "{}", '{"batch": "3"}', "{"];
    expect(others.map(readProgramLine)).toEqual(others.map(() => undefined));
  });
});

describe("reportedError", () => {
  it("takes a text or an object", () => {
    expect(reportedError("why")).toEqual({ message: "why" });
    expect(reportedError({ code: "X", message: "why" })).toEqual({ code: "X", message: "why" });
    expect(reportedError({ reason: 7 })).toEqual({ message: '{"reason":7}' });
  });
});
