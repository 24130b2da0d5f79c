import { describe, expect, it } from "vitest";
import { silentLogger, textLogger } from "../../src/foundation/logger.ts";

describe("textLogger", () => {
  it("writes one line a call: level where it matters, message, fields", () => {
    const lines: string[] = [];
    const logger = textLogger((line) => lines.push(line));
    logger.log("info", "sealed");
    logger.log("warn", "slow", { busySeconds: 3, path: "out" });
    logger.log("error", "failed", { error: { code: "TIMEOUT" } });
    expect(lines).toEqual([
      "sealed\n",
      "warn: slow (busy seconds 3, path out)\n",
      'error: failed (error {"code":"TIMEOUT"})\n',
    ]);
  });
});

describe("silentLogger", () => {
  it("takes a line and says nothing", () => {
    expect(silentLogger.log("error", "dropped")).toBeUndefined();
  });
});
