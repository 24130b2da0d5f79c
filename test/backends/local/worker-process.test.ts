import { describe, expect, it } from "vitest";
import { startWorkerProcess } from "../../../src/backends/local/worker-process.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";

describe("startWorkerProcess", () => {
  it("tells how the process ended, with the error and not what stands below it", async () => {
    const worker = startWorkerProcess({
      executable: process.execPath,
      arguments: ["-e", "throw new TypeError('no such thing')"],
      environment: process.env,
      logger: silentLogger,
    });
    expect(await worker.ended).toBe("left with code 1: TypeError: no such thing");
  });
});
