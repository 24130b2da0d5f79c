import { expect, it } from "vitest";
import { secondsOf } from "../../src/cli/commands/plan.ts";

it("reads lengths of time as people write them", () => {
  const spans = { "2h": 7200, "1h30m": 5400, "90m": 5400, "45s": 45, "1.5d": 129_600, "0.5s": 0.5 };
  for (const [text, seconds] of Object.entries(spans)) {
    expect(secondsOf("--deadline", text), text).toBe(seconds);
  }
});

it("refuses what is none, and nothing at all", () => {
  for (const text of ["", "2", "h", "2x", "-1h", "30m1h", "0s", "2 h", "1h 30m"]) {
    expect(() => secondsOf("--deadline", text), text).toThrow(
      expect.objectContaining({ code: "USAGE", message: expect.stringContaining("--deadline") }),
    );
  }
});
