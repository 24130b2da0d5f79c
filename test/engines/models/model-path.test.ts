import { describe, expect, it } from "vitest";
import { isModelPath } from "../../../src/engines/models/model-path.ts";

describe("isModelPath", () => {
  it.each([
    ["~/m", true],
    ["./m", true],
    ["m.gguf", true],
    ["m", false],
    ["hf:owner/repo/m.gguf", false],
    ["https://host/m.gguf", false],
  ])("of %s is %s", (name, expected) => {
    expect(isModelPath(name)).toBe(expected);
  });
});
