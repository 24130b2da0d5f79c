import { describe, expect, it } from "vitest";
import {
  generationNotices,
  generationParameters,
  withGenerationDefaults,
} from "../../../src/run/job/generation.ts";
import { generationOptions } from "../../../src/run/job/generation-schema.ts";

const parse = (value: object) => generationOptions.parse(value);
const problemsOf = (value: unknown) => {
  const parsed = generationOptions.safeParse(value);
  return parsed.success ? [] : parsed.error.issues.map(({ path, message }) => ({ path, message }));
};

describe("generationParameters", () => {
  it("fills in every default, and names none as written", () => {
    expect(generationParameters(parse({}), 7)).toEqual({
      maxNewTokens: 256,
      temperature: 0,
      topP: 1,
      topK: 0,
      minP: 0,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      seed: 7,
      stop: [],
    });
  });

  it("names what was written, a default too", () => {
    const written = { topK: 0, stop: "END", ignoreEos: true, logprobs: 2, seed: 3 };
    const parameters = generationParameters(parse(written), 3);
    expect(parameters).toMatchObject({ ...written, stop: ["END"] });
    expect(parameters.explicit!.toSorted()).toEqual(Object.keys(written).toSorted());
  });

  it("hands on nothing that is no engine's business", () => {
    const written = { returnFullText: true, useCache: true, doSample: true };
    const parameters = generationParameters(parse(written), 1);
    expect(Object.keys(parameters)).toEqual(Object.keys(generationParameters(parse({}), 1)));
  });

  it("makes of maxLength a bound of the answer", () => {
    const parameters = generationParameters(parse({ maxLength: 100 }), 1);
    expect(parameters).toMatchObject({ maxLength: 100, maxNewTokens: 99, explicit: ["maxLength"] });
  });

  it.each([
    [{ doSample: false, temperature: 0.7 }, 0],
    [{ doSample: false }, 0],
    [{ doSample: true, temperature: 0.7 }, 0.7],
    [{ doSample: true }, 1],
    [{ temperature: 0.7 }, 0.7],
  ])("takes the temperature of %j as %f", (written, temperature) => {
    expect(generationParameters(parse(written), 1).temperature).toBe(temperature);
  });
});

describe("generationOptions", () => {
  it("refuse what contradicts itself", () => {
    expect(problemsOf({ maxLength: 10, maxNewTokens: 5 })).toEqual([
      { path: ["maxLength"], message: "stands beside maxNewTokens: give one of them" },
    ]);
    expect(problemsOf({ doSample: true, temperature: 0 })[0]!.path).toEqual(["temperature"]);
    expect(problemsOf({ numReturnSequences: 3 })[0]).toEqual({
      path: ["numReturnSequences"],
      message: "gives 3 times the same answer: set a temperature above 0",
    });
    expect(problemsOf({ numReturnSequences: 3, temperature: 1, doSample: false })).toHaveLength(1);
    expect(problemsOf({ numReturnSequences: 3, doSample: true })).toEqual([]);
    expect(problemsOf({ numReturnSequences: 1 })).toEqual([]);
  });

  it("have limits", () => {
    expect(problemsOf({ numReturnSequences: 129, temperature: 1 })).toHaveLength(1);
    expect(problemsOf({ logprobs: 21 })).toHaveLength(1);
    expect(problemsOf({ maxLength: 1 })).toHaveLength(1);
  });
});

describe("withGenerationDefaults", () => {
  it("is the same for a default that is written and one that is not", () => {
    const least = withGenerationDefaults(parse({}));
    const written = { stop: [], topP: 1, ignoreEos: false, numBeams: 1 };
    expect(withGenerationDefaults(parse(written))).toEqual(least);
    expect(withGenerationDefaults(parse({ maxLength: 9 }))).not.toHaveProperty("maxNewTokens");
  });
});

describe("generationNotices", () => {
  it("name what is taken and does nothing", () => {
    expect(generationNotices(parse({ temperature: 1 }))).toEqual([]);
    expect(generationNotices(parse({ useCache: true }))).toHaveLength(1);
    const [notice] = generationNotices(parse({ doSample: false, temperature: 0.7 }));
    expect(notice).toBe("generation.temperature 0.7 is not used, because doSample is false");
  });
});
