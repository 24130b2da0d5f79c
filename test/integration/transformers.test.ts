import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engines/engine.ts";
import { openTransformers } from "../../src/engines/transformers/engine.ts";
import type { SamplingParameters } from "../../src/foundation/inference.ts";
import { engineConformance, keptOpen } from "../conformance/engine-conformance.ts";
import golden from "../golden/toy-m2m100/golden.json" with { type: "json" };
import { engineContext } from "./llama-files.ts";
import { missingTransformers, rowRequest, toyOptions } from "./transformers-files.ts";

const missing = await missingTransformers();
const never = new AbortController().signal;

// The first cases have sentences as the toy was trained on, the others what it never saw.
const english = [...new Set(golden.cases[0]!.texts.join(" ").split(" "))];

/** The languages of the toy, by their rule. */
const spell: Record<string, (word: string) => string> = {
  en: (word) => word,
  fr: (word) => `f${[...word].reverse().join("")}`,
  de: (word) => `${word}en`,
};

function said(words: readonly string[], language: string): string {
  const spelled = words.map(spell[language]!);
  return (language === "de" ? spelled.reverse() : spelled).join(" ");
}

function parametersOf(given: Record<string, unknown>): Partial<SamplingParameters> {
  const names = {
    max_new_tokens: "maxNewTokens",
    num_beams: "numBeams",
    num_return_sequences: "numReturnSequences",
    length_penalty: "lengthPenalty",
    early_stopping: "earlyStopping",
  } as Record<string, string>;
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [names[name]!, value]));
}

describe("openTransformers, translating", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  let engine: Engine;
  const batches: number[] = [];
  beforeAll(async () => {
    if (missing !== undefined) return;
    const columns = { srcLangColumn: "from", tgtLangColumn: "to" };
    const context = { ...engineContext, onBatch: (requests: number) => batches.push(requests) };
    engine = await openTransformers(toyOptions(columns), context);
  });
  afterAll(() => engine?.close());

  const ask = (
    texts: readonly string[],
    [from, to]: readonly [string, string],
    parameters: Partial<SamplingParameters>,
  ) =>
    texts.map((text, index) =>
      engine.infer(rowRequest(index, { text, from, to }, parameters), never),
    );

  it("says what it chose", () => {
    expect(engine.name).toBe("model");
    expect(engine.choices).toMatchObject({ task: "translation", threads: 1, dtype: "fp32" });
    expect(engine.choices?.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each(golden.cases.map((each, at) => ({ ...each, at })))(
    "gives what the reference gives: case $at, $source to $target, $parameters",
    async ({ source, target, texts, parameters, answers }) => {
      const wanted = answers.map((each) => each.map(({ text, tokens }) => [text, tokens.length]));
      const together = await Promise.all(ask(texts, [source, target], parametersOf(parameters)));
      const given = together.map((each) => each.answers.map(({ text, tokens }) => [text, tokens]));
      expect(given).toEqual(wanted);
      for (const [at, text] of texts.entries()) {
        const [alone] = ask([text], [source, target], parametersOf(parameters));
        expect((await alone!).answers).toEqual(together[at]!.answers);
      }
    },
  );

  it("is right by the languages' own rule, all directions at once", async () => {
    const rows = ["en", "fr", "de"].flatMap((from) =>
      ["en", "fr", "de"].filter((to) => to !== from).map((to) => [from, to] as const),
    );
    const asked = rows.flatMap(([from, to], at) =>
      [1, 3, 5, 8].map((length) => {
        const drawn = Array.from({ length }, (_, place) => {
          return english[(at * 7 + place * 5 + length) % english.length]!;
        });
        return { from, to, text: said(drawn, from), wanted: said(drawn, to) };
      }),
    );
    const given = await Promise.all(
      asked.map(({ from, to, text }, index) =>
        engine.infer(rowRequest(index, { text, from, to }), never),
      ),
    );
    expect(given.map(({ answers }) => answers[0]!.text)).toEqual(asked.map((row) => row.wanted));
  });

  it("tells how many requests each batch has", async () => {
    batches.length = 0;
    await Promise.all(ask(Array<string>(9).fill("house"), ["en", "fr"], {}));
    expect(batches.reduce((sum, requests) => sum + requests)).toBe(9);
    expect(batches.length).toBeLessThan(9);
  });

  it("ends a row at its own end, and says when a limit ended it", async () => {
    const texts = ["house", "house dog cat tree bird"];
    const [short, long] = await Promise.all(ask(texts, ["en", "fr"], { maxNewTokens: 4 }));
    expect(short!.answers[0]).toMatchObject({ text: "fesuoh", finishReason: "stop", tokens: 3 });
    expect(long!.answers[0]).toMatchObject({ finishReason: "length", tokens: 4 });
  });

  it("stops at a text, goes on beyond the end where it is told to, and no further than its positions", async () => {
    const one = async (text: string, parameters: Partial<SamplingParameters>) =>
      (await ask([text], ["en", "fr"], parameters)[0]!).answers[0]!;
    expect(await one("house dog cat", { stop: ["fgod"] })).toMatchObject({
      text: "fesuoh ",
      finishReason: "stop",
    });
    expect(await one("house", { ignoreEos: true, maxNewTokens: 6 })).toMatchObject({
      finishReason: "length",
      tokens: 6,
    });
    expect((await one("house", { ignoreEos: true, maxNewTokens: 500 })).tokens).toBe(64);
  });

  it("samples by the row's own seed, whatever is beside it", async () => {
    const parameters = { temperature: 3, topK: 20, maxNewTokens: 10, numReturnSequences: 3 };
    const texts = ["house dog", "a bird sees the stone", "water"];
    const together = await Promise.all(ask(texts, ["en", "fr"], parameters));
    const last = await engine.infer(
      rowRequest(2, { text: "water", from: "en", to: "fr" }, parameters),
      never,
    );
    expect(last.answers).toEqual(together[2]!.answers);
    for (const { answers } of together) {
      expect(new Set(answers.map(({ text }) => text)).size).toBeGreaterThan(1);
    }
  });

  it("names what is wrong with a row, and goes on", async () => {
    const codeOf = (row: Record<string, string | number>) =>
      engine.infer(rowRequest(0, row), never).then(
        () => "answered",
        (error: { code: string }) => error.code,
      );
    expect(await codeOf({ text: "house", from: "en", to: "xx" })).toBe("LANGUAGE_UNKNOWN");
    expect(await codeOf({ from: "en", to: "fr" })).toBe("COLUMN_INVALID");
    expect(await codeOf({ text: 7, from: "en", to: "fr" })).toBe("COLUMN_INVALID");
    expect(await codeOf({ text: "house ".repeat(80) })).toBe("PROMPT_TOO_LONG");
    expect(await codeOf({ text: "house" })).toBe("answered");
  });
});

describe("openTransformers, refusing", () => {
  beforeEach((context) => context.skip(missing !== undefined, missing));

  const refusal = (given: Parameters<typeof toyOptions>[0]) =>
    openTransformers(toyOptions(given), engineContext).then(
      () => expect.fail("it opened"),
      (error: { code: string; message: string; hint: string }) => error,
    );

  it("languages that the model lacks or that nobody names", async () => {
    const unknown = await refusal({ tgtLang: "xx" });
    expect(unknown).toMatchObject({ code: "TASK_UNUSABLE", hint: "take one of en, fr, de" });
    const { srcLang: _, ...none } = toyOptions();
    const unnamed = await openTransformers(none, engineContext).catch((error: Error) => error);
    expect((unnamed as Error).message).toContain("has no srcLang");
  });

  it("a task that the model is not for", async () => {
    for (const task of ["text-classification", "feature-extraction"]) {
      expect(await refusal({ task }), task).toMatchObject({ code: "TASK_UNUSABLE" });
    }
  });

  it("weights that the folder does not have, and a device that is not there", async () => {
    expect(await refusal({ dtype: "q8" })).toMatchObject({
      code: "MODEL_UNREADABLE",
      hint: expect.stringContaining("q8 is not among them"),
    });
    expect(await refusal({ device: "dml" })).toMatchObject({
      code: "ENGINE_START_FAILED",
      message: expect.stringContaining("model.device: dml"),
      hint: expect.stringContaining("set model.device: cpu"),
    });
  });
});

if (missing === undefined) {
  const open = () => openTransformers(toyOptions({ maxBatchRows: 4 }), engineContext);
  const kept = keptOpen(open);
  engineConformance("transformers, translating", async ({ mustClose }) => ({
    engine: await (mustClose ? open : kept)(),
    isDeterministic: true,
    answersSeveral: true,
    failing: {
      request: rowRequest(0, { none: "" }),
      code: "COLUMN_INVALID",
    },
  }));
}
