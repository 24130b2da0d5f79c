import { describe, expect, it } from "vitest";
import { modelOptions } from "../../../src/engines/model-options.ts";
import { answeredApis, unsupportedOptions } from "../../../src/engines/registry.ts";
import { transformersDescription } from "../../../src/engines/transformers/description.ts";
import type { TransformersModelOptions } from "../../../src/engines/transformers/options.ts";
import { greedyParameters } from "../../../src/foundation/inference.ts";

const options = (given: object = {}) => {
  const asked = { engine: "transformers", task: "translation", name: "owner/name", ...given };
  return modelOptions.parse(asked) as TransformersModelOptions;
};
const parameters = { ...greedyParameters, maxNewTokens: 8, seed: 1 };
const refused = (given: object, asked: object) =>
  unsupportedOptions(options(given), { ...parameters, ...asked }, ["fail"]).map((it) => it.option);

describe("engine transformers", () => {
  it("searches with beams", () => {
    const beams = { numBeams: 4, lengthPenalty: 2, earlyStopping: true, numReturnSequences: 2 };
    expect(refused({}, beams)).toEqual([]);
  });

  it("refuses by name what it does not do", () => {
    expect(refused({}, { logprobs: 3, presencePenalty: 1 })).toEqual([
      "generation.presencePenalty",
      "generation.logprobs",
    ]);
    expect(refused({ task: "feature-extraction" }, { numBeams: 2 })).toEqual([
      "generation.numBeams",
    ]);
    expect(refused({ task: "feature-extraction" }, {})).toEqual([]);
  });

  it("gives vectors and transcripts by the tasks that make them", () => {
    const apisOf = (task: string) => answeredApis(options({ task }));
    expect(apisOf("feature-extraction")).toEqual({
      ...{ text: false, embedding: true, transcription: false },
    });
    const speech = apisOf("automatic-speech-recognition");
    expect(speech).toEqual({ text: true, embedding: false, transcription: true });
    expect(apisOf("translation")).toMatchObject({ text: true, embedding: false });
  });

  it("makes paths absolute and leaves names of the hub as they are", () => {
    const absolute = (text: string) => `/jobs/${text}`;
    const nameOf = (name: string) =>
      transformersDescription.withAbsolutePaths!(options({ name }), absolute).name;
    expect(nameOf("./opus")).toBe("/jobs/./opus");
    expect(nameOf("owner/name")).toBe("owner/name");
  });

  it("divides the cores among workers, where the job does not say", () => {
    const threadsOf = (given: object, workers: number) =>
      transformersDescription.sharedAmong!(options(given), workers, 4).threads;
    expect(threadsOf({}, 2)).toBe(4);
    expect(threadsOf({ threads: 1 }, 2)).toBe(1);
    expect(threadsOf({}, 1)).toBeUndefined();
  });

  it("refuses unknown tasks and options", () => {
    expect(() => options({ task: "translate" })).toThrow();
    expect(() => options({ srcLanguage: "en" })).toThrow();
  });
});
