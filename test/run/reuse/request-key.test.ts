import { describe, expect, it } from "vitest";
import type { InferenceRequest } from "../../../src/foundation/inference.ts";
import { isRepeatable, requestKey } from "../../../src/run/reuse/request-key.ts";
import { requestOf } from "./requests.ts";

const keyOf = (changes: Partial<InferenceRequest>, model = "m") =>
  requestKey(model, { ...requestOf("hello"), ...changes });

describe("isRepeatable", () => {
  it.each([
    [{ temperature: 0 }, true],
    [{ temperature: 1 }, false],
    [{ temperature: 1, explicit: ["temperature"] }, false],
    [{ temperature: 1, explicit: ["seed"] }, true],
  ])("%j: %s", (parameters, expected) => {
    expect(isRepeatable(requestOf("hello", parameters))).toBe(expected);
  });
});

describe("requestKey", () => {
  it("is the same for what is asked alike, whichever row asks", () => {
    const key = keyOf({});
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(keyOf({ origin: { index: 7, promptName: "other", element: 3 } })).toBe(key);
    expect(keyOf({ onTooLong: "fail" })).toBe(key);
    expect(keyOf({ parameters: requestOf("", { seed: 8, explicit: ["seed"] }).parameters })).toBe(
      key,
    );
  });

  it.each<[string, Partial<InferenceRequest>]>([
    ["words", { prompt: "hullo" }],
    ["message", { prompt: undefined, messages: [{ role: "user", content: "hello" }] }],
    ["parameter", { parameters: requestOf("", { topK: 3 }).parameters }],
    ["policy", { onTooLong: "truncate-left" }],
    ["tool", { tools: [{ type: "function" }] }],
    ["choice of tools", { tools: [], toolChoice: "required" }],
    ["form", { slottedLine: { line: "{a}", slots: [] } }],
    ["vector", { embed: true }],
  ])("differs with another %s", (_name, changes) => {
    expect(keyOf(changes)).not.toBe(keyOf({}));
  });

  it("differs with another model, and with another seed where something is sampled", () => {
    expect(keyOf({}, "n")).not.toBe(keyOf({}));
    const sampled = (seed: number) => requestOf("hello", { temperature: 1, seed });
    expect(requestKey("m", sampled(1))).not.toBe(requestKey("m", sampled(2)));
  });
});
