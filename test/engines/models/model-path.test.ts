import { describe, expect, it } from "vitest";
import { isModelPath, withAbsoluteFile } from "../../../src/engines/models/model-path.ts";

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

describe("withAbsoluteFile", () => {
  it.each([
    ["models/chat", "/job/models/chat"],
    ["file:models/a.gguf", "/job/models/a.gguf"],
    ["./a.gguf", "/job/./a.gguf"],
    ["smollm2-135m-instruct", "smollm2-135m-instruct"],
    ["hf:owner/repo/a.gguf", "hf:owner/repo/a.gguf"],
    ["https://x.example/a.gguf", "https://x.example/a.gguf"],
    ["file:///a.gguf", "file:///a.gguf"],
  ])("makes of %s %s", (name, wanted) => {
    expect(withAbsoluteFile({ name }, (path) => `/job/${path}`)).toEqual({ name: wanted });
  });
});
