import { describe, expect, it } from "vitest";
import type { Engine } from "../../../src/engines/engine.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import { noUsage } from "../../../src/foundation/inference.ts";
import { redacting } from "../../../src/run/execute/redacting-engine.ts";

const request = {} as InferenceRequest;
const { signal } = new AbortController();
const engineOf = (infer: Engine["infer"]): Engine =>
  redacting({ name: "e", capacity: 1, infer, close: async () => {} }, (text) =>
    text.replaceAll("s3cret", "[redacted]"),
  );

describe("an engine whose errors hold no secret", () => {
  it("throws them without it, under the same code", async () => {
    const failing = engineOf(async () => {
      throw new SluiceError("PREDICTION_FAILED", "it said s3cret");
    });
    await expect(failing.infer(request, signal)).rejects.toMatchObject({
      code: "PREDICTION_FAILED",
      message: expect.stringMatching(/it said \[redacted\]$/),
    });
    const refused = engineOf(async () => {
      const server = { status: 400, message: "your key s3cret", code: null };
      throw new SluiceError("REQUEST_REFUSED", "", { server });
    });
    await expect(refused.infer(request, signal)).rejects.toMatchObject({
      server: { status: 400, message: "your key [redacted]", code: null },
    });
    const plain = engineOf(async () => {
      throw new TypeError("s3cret is not a function");
    });
    await expect(plain.infer(request, signal)).rejects.toThrow(/\[redacted\] is not a function/);
  });

  it("answers with failures of single rows without it", async () => {
    const response = { answers: [], usage: noUsage, seconds: 0 };
    const failures = new Map([[1, new Error("row of s3cret")]]);
    const engine = engineOf(async () => ({ ...response, failures }));
    const { failures: shown } = await engine.infer(request, signal);
    expect(shown?.get(1)?.message).toBe("row of [redacted]");
  });

  it("leaves the reason of an abort as it is", async () => {
    const stop = new AbortController();
    const reason = new Error("s3cret");
    stop.abort(reason);
    const engine = engineOf(async () => {
      throw reason;
    });
    await expect(engine.infer(request, stop.signal)).rejects.toBe(reason);
    expect(reason.message).toBe("s3cret");
  });
});
