import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { nearestKey } from "../../../src/foundation/suggest.ts";
import { jobKeyNamed, jobKeys } from "../../../src/run/job/keys.ts";
import { nodesAt } from "../../../src/run/job/schema-tree.ts";

const keyOf = (path: string) => jobKeys().find((key) => key.path === path);

describe("jobKeyNamed", () => {
  it("finds what jobKeys has, by each of its names", () => {
    for (const key of jobKeys()) {
      if (key.environment === undefined) continue;
      const { path, isSwitch, otherNames } = key;
      for (const name of [path, ...otherNames]) {
        expect(jobKeyNamed(name), name).toMatchObject({ path, isSwitch, otherNames });
      }
    }
  });

  it.each(["generation.temprature", "generation.topP.x", "model", "prompts.NAME", "prompts.a", ""])(
    "finds nothing else: %j",
    (name) => {
      const own = jobKeys().find(({ path }) => path === name);
      const expected = own?.environment === undefined ? undefined : own;
      expect(jobKeyNamed(name)?.path).toBe(expected?.path);
    },
  );
});

describe("jobKeys", () => {
  it("merges the forms of a union", () => {
    const engines = modelOptions.options.map(({ shape }) => shape.engine.value);
    expect(engines).toEqual(expect.arrayContaining(["llama", "openai", "fake"]));
    expect(keyOf("model.engine")?.type).toBe(engines.join(" | "));
    expect(keyOf("model.contextTokens")?.engines).toEqual([
      "llama",
      "openai",
      "llama-server",
      "vllm",
      "openvino",
    ]);
    expect(keyOf("model.name")?.default).toBeUndefined();
    expect(keyOf("input")?.type).toBe("text or object or list of objects");
    expect(keyOf("input.N.path")).toBeUndefined();
  });

  it("says what a key means to each engine that knows it", () => {
    const [batch, module] = ["model.maxBatchRows", "model.module"].map(keyOf);
    expect(batch?.description).toMatch(
      /^Texts of .* \(engine openai, .*\); Most rows .* \(engine /,
    );
    expect(module?.description).toMatch(/ \(engine predictor\)$/);
    expect(keyOf("input")?.description).not.toContain("engine");
  });

  it("knows default, kind and variable", () => {
    expect(keyOf("generation.repetitionPenalty")).toMatchObject({
      default: 1,
      kind: "answers",
      environment: "SLUICE_GENERATION__REPETITION_PENALTY",
    });
    expect(keyOf("output.path")?.kind).toBe("layout");
    expect(keyOf("prompts.NAME.api")?.environment).toBeUndefined();
    expect(keyOf("model.failures.N.kind")?.environment).toBeUndefined();
    expect(keyOf("keepJournals")?.isSwitch).toBe(true);
  });

  it("has keys that the schema leads to", () => {
    const lost = jobKeys().filter(({ path }) => {
      const parts = path.split(".").map((part) => (part === "N" ? "0" : part));
      return nodesAt(parts).length === 0;
    });
    expect(lost).toEqual([]);
  });
});

describe("nearestKey", () => {
  it("prefers the last level, then the whole, then the last level nearly", () => {
    const keys = ["model.seed", "generation.temperature", "prompt", "prompts"];
    expect(nearestKey("temperature", keys, ".")).toBe("generation.temperature");
    expect(nearestKey("promt", keys, ".")).toBe("prompt");
    expect(nearestKey("gen.temprature", keys, ".")).toBe("generation.temperature");
    expect(nearestKey("zzzzzzzz", keys, ".")).toBeUndefined();
  });
});
