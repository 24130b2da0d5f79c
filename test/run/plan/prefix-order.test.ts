import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InputRow } from "../../../src/data/row.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { promptSetOf } from "../../../src/run/plan/job-prompts.ts";
import { firstText, inPrefixOrder, prefixOrderPays } from "../../../src/run/plan/prefix-order.ts";
import { jobOf } from "../run-fixture.ts";

const promptSet = promptSetOf(jobOf({ prompt: "{{ text }}" }), 1);
const rowOf = (text: string, index: number): InputRow => {
  const value = { text };
  return { index, file: "/in.jsonl", line: index + 1, raw: JSON.stringify(value), value };
};

async function ordered(texts: readonly string[], maxBytes?: number, batch = 3): Promise<number[]> {
  const batches = async function* () {
    const rows = texts.map(rowOf);
    for (let at = 0; at < rows.length; at += batch) yield rows.slice(at, at + batch);
  };
  const indexes: number[] = [];
  for await (const rows of inPrefixOrder(batches(), promptSet, maxBytes)) {
    indexes.push(...rows.map(({ index }) => index));
  }
  return indexes;
}

describe("inPrefixOrder", () => {
  it("brings prompts together that begin alike, equal ones in input order", async () => {
    expect(await ordered(["b 1", "a 1", "b 0", "a 1", "a 0"])).toEqual([4, 1, 3, 2, 0]);
  });

  it("gives every row once, sorted within windows of bounded size", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.string()), fc.nat(200), async (texts, maxBytes) => {
        const indexes = await ordered(texts, maxBytes);
        expect(indexes.toSorted((a, b) => a - b)).toEqual(texts.map((_, index) => index));
      }),
    ));

  it("holds no more than a window", async () => {
    const texts = ["d", "c", "b", "a"];
    expect(await ordered(texts, 1, 2)).toEqual([1, 0, 3, 2]);
    expect(await ordered(texts, 10_000, 2)).toEqual([3, 2, 1, 0]);
  });
});

describe("firstText", () => {
  it("is nothing for a row that cannot be asked", () => {
    const error = new SluiceError("JSON_INVALID", "");
    const row = { index: 0, file: "/in", line: 1, raw: "{" };
    expect(firstText(promptSet, { ...row, error })).toBe("");
    expect(firstText(promptSet, { ...row, value: {} })).toBe("");
    expect(firstText(promptSet, rowOf("hello", 0))).toContain("hello");
  });
});

describe("prefixOrderPays", () => {
  const documents = Array.from({ length: 40 }, (_, at) => `${at}`.repeat(200));

  it("does where prompts that share much lie far apart", () => {
    const shuffled = Array.from({ length: 120 }, (_, at) => `${documents[at % 40]} question ${at}`);
    expect(prefixOrderPays(shuffled)).toBe(true);
  });

  it("does not where they lie together, share only their start, or share nothing", () => {
    const together = documents.flatMap((text) => [`${text} 1`, `${text} 2`]);
    expect(prefixOrderPays(together)).toBe(false);
    expect(prefixOrderPays(documents.map((text) => `You are helpful. ${text}`))).toBe(false);
    expect(prefixOrderPays(documents)).toBe(false);
    expect(prefixOrderPays([])).toBe(false);
  });
});
