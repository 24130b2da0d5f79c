import { describe, expect, it } from "vitest";
import { modelOptions } from "../../src/engines/model-options.ts";
import { unsupportedOptions } from "../../src/engines/registry.ts";
import { chatRequest } from "./engine-context.ts";

const hosted = modelOptions.parse({ engine: "openai", name: "m" });
const own = modelOptions.parse({
  engine: "openai",
  name: "m",
  baseUrl: "http://127.0.0.1:8000/v1",
});
const unusual = chatRequest(0, {
  topK: 40,
  minP: 0.1,
  repetitionPenalty: 1.2,
  ignoreEos: true,
  logprobs: 2,
  numReturnSequences: 3,
  stop: ["END"],
}).parameters;
const namesOf = (...given: Parameters<typeof unsupportedOptions>) =>
  unsupportedOptions(...given).map(({ option }) => option);

describe("what the openai engine cannot do", () => {
  it("is more at api.openai.com", () => {
    expect(namesOf(hosted, unusual, ["fail"])).toEqual([
      "generation.topK",
      "generation.minP",
      "generation.repetitionPenalty",
      "generation.ignoreEos",
    ]);
    expect(namesOf(own, unusual, ["fail"])).toEqual([]);
  });

  it("is nothing that asks for nothing, written down or not", () => {
    const neutral = { topK: 0, minP: 0, ignoreEos: false, numBeams: 1, logprobs: 0, stop: [] };
    const explicit = Object.keys(neutral);
    const { parameters } = chatRequest(0, { ...neutral, explicit });
    expect(namesOf(hosted, parameters, ["fail"])).toEqual([]);
    expect(namesOf(hosted, chatRequest(0).parameters, ["fail"])).toEqual([]);
  });

  it("is what needs the server's tokenizer, with what to do instead", () => {
    const { parameters } = chatRequest(0, { maxLength: 100, prependBos: false });
    const policies = ["truncate-left", "fail", "truncate-left"] as const;
    const found = unsupportedOptions(own, parameters, policies);
    expect(found.map(({ option }) => option)).toEqual([
      "generation.maxLength",
      "generation.prependBos",
      "onTooLong: truncate-left",
    ]);
    expect(found[0]!.hint).toContain("maxNewTokens");
  });
});

describe("what no engine can do", () => {
  it.each(["fake", "llama", "openai"] as const)("is a search with beams: %s", (engine) => {
    const model = modelOptions.parse({ engine, name: "m" });
    const { parameters } = chatRequest(0, { numBeams: 4 });
    expect(namesOf(model, parameters, ["fail"])).toEqual(["generation.numBeams"]);
  });
});

describe("what fake and llama can do", () => {
  it.each(["fake", "llama"] as const)("is everything else: %s", (engine) => {
    const model = modelOptions.parse({ engine, name: "m" });
    const asked = { ...unusual, maxLength: 100, prependBos: true };
    expect(namesOf(model, asked, ["truncate-right"])).toEqual([]);
  });
});
