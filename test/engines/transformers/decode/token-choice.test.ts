import { describe, expect, it } from "vitest";
import { chooseToken } from "../../../../src/engines/transformers/decode/token-choice.ts";
import { seededRandom } from "../../../../src/foundation/random.ts";

const all = { temperature: 1, topP: 1, topK: 0, minP: 0 };
const logits = Float32Array.from([0.5, 0.3, 0.15, 0.05], Math.log);

/** How often each token is chosen of 4000 times. */
function counts(parameters: Partial<typeof all>, of = logits): number[] {
  const random = seededRandom(3);
  const found = new Array<number>(of.length).fill(0);
  for (let at = 0; at < 4000; at++) found[chooseToken(of, { ...all, ...parameters }, random)]!++;
  return found;
}

describe("chooseToken", () => {
  it("takes the likeliest at temperature 0, of equals the first", () => {
    expect(counts({ temperature: 0 })).toEqual([4000, 0, 0, 0]);
    expect(counts({ temperature: 0 }, Float32Array.of(1, 2, 2))).toEqual([0, 4000, 0]);
  });

  it("samples by probability", () => {
    for (const [token, count] of counts({}).entries()) {
      expect(Math.abs(count / 4000 - Math.exp(logits[token]!))).toBeLessThan(0.03);
    }
  });

  it("flattens and sharpens by temperature", () => {
    expect(counts({ temperature: 3 })[3]!).toBeGreaterThan(counts({})[3]!);
    expect(counts({ temperature: 0.3 })[0]!).toBeGreaterThan(counts({})[0]!);
  });

  it("leaves out what topK, topP and minP leave out", () => {
    const isChosen = (parameters: Partial<typeof all>) => counts(parameters).map((it) => it > 0);
    expect(isChosen({ topK: 2 })).toEqual([true, true, false, false]);
    expect(isChosen({ topP: 0.7 })).toEqual([true, true, false, false]);
    expect(isChosen({ topP: 0.1 })).toEqual([true, false, false, false]);
    expect(isChosen({ minP: 0.2 })).toEqual([true, true, true, false]);
    expect(isChosen({ topK: 3, topP: 0.6 })).toEqual([true, true, false, false]);
  });

  it("never takes what is impossible", () => {
    expect(counts({ temperature: 10 }, Float32Array.of(0, Number.NEGATIVE_INFINITY))[1]).toBe(0);
  });
});
