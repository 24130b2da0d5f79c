import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { unsupportedParameters } from "../../../src/engines/openai/unsupported.ts";
import { unsupportedOptions } from "../../../src/engines/registry.ts";
import { chatRequest } from "../engine-context.ts";

const hosted = modelOptions.parse({ engine: "openai", name: "m" });
const own = modelOptions.parse({
  engine: "openai",
  name: "m",
  baseUrl: "http://127.0.0.1:8000/v1",
});
const unusual = chatRequest(0, { topK: 40, minP: 0.1, repetitionPenalty: 1.2 }).parameters;

describe("what the openai engine cannot do", () => {
  it("is more at api.openai.com", () => {
    expect(unsupportedOptions(hosted, unusual, ["fail"])).toEqual([
      "generation.topK",
      "generation.minP",
      "generation.repetitionPenalty",
    ]);
    expect(unsupportedOptions(own, unusual, ["fail"])).toEqual([]);
    expect(unsupportedOptions(hosted, chatRequest(0).parameters, ["fail"])).toEqual([]);
    expect(unsupportedParameters({ baseUrl: "https://api.openai.com/v1/" }, unusual).length).toBe(
      3,
    );
  });

  it("is truncation anywhere", () => {
    const policies = ["truncate-left", "fail", "truncate-left"] as const;
    const names = unsupportedOptions(own, chatRequest(0).parameters, policies);
    expect(names).toEqual(["onTooLong: truncate-left"]);
  });

  it("is nothing for other engines", () => {
    const fake = modelOptions.parse({ engine: "fake" });
    expect(unsupportedOptions(fake, unusual, ["truncate-right"])).toEqual([]);
  });
});
