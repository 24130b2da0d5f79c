import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { downloadReporter, megabytes } from "../../src/terminal/download-progress.ts";

function reporterAt(isTerminal: boolean) {
  let text = "";
  let nowMs = 0;
  const stderr = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  const clock = { now: () => nowMs, monotonic: () => nowMs, schedule: () => () => {} };
  const reporter = downloadReporter({ stderr, isTerminal, columns: () => 70, clock });
  const report = (atMs: number, bytes: number, source = "hub") => {
    nowMs = atMs;
    reporter.report({ name: "tiny", source, bytes, totalBytes: 4_000_000 });
  };
  return { report, reporter, text: () => text };
}

describe("downloadReporter", () => {
  it("writes a line now and then where there is no terminal", () => {
    const { report, text } = reporterAt(false);
    report(0, 0);
    report(1000, 1_000_000);
    report(5000, 2_000_000);
    const bar = `${"█".repeat(12)}${"░".repeat(12)}`;
    expect(text().split("\n")).toEqual([
      "tiny  starting  from hub",
      `tiny  ${bar}  50 %  2.0 MB of 4.0 MB  0.4 MB/s  from hub`,
      "",
    ]);
  });

  it("measures the rate of each source by itself", () => {
    const { report, text } = reporterAt(false);
    report(0, 1_000_000);
    report(10_000, 1_000_000, "pypi");
    report(20_000, 2_000_000, "pypi");
    expect(text().split("\n")[2]).toContain("0.1 MB/s  from pypi");
  });

  it("redraws one line on a terminal, never wider than it", () => {
    const { report, reporter, text } = reporterAt(true);
    report(0, 1_000_000);
    report(10, 1_100_000);
    report(1000, 2_000_000);
    reporter.clear();
    reporter.clear();
    const drawings = text().split("\r\x1b[K");
    expect(drawings).toHaveLength(4);
    expect(drawings.at(-1)).toBe("");
    for (const drawing of drawings) expect(drawing.length).toBeLessThan(70);
  });
});

describe("megabytes", () => {
  it("counts in millions", () => {
    expect(megabytes(98_362_432)).toBe("98.4 MB");
  });
});
