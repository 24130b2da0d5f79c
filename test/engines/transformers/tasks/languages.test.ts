import { describe, expect, it } from "vitest";
import {
  assertLanguages,
  languagesOf,
} from "../../../../src/engines/transformers/tasks/languages.ts";
import type { Tokenizer } from "../../../../src/engines/transformers/transformers-js.ts";
import type { InferenceRequest } from "../../../../src/foundation/inference.ts";
import type { JsonObject } from "../../../../src/foundation/json.ts";

const known = ["en", "fr"];
const several = { language_codes: known } as unknown as Tokenizer;
const one = {} as Tokenizer;

describe("assertLanguages", () => {
  it("takes languages that the model knows, and columns that will name them", () => {
    expect(() => assertLanguages({ srcLang: "en", tgtLangColumn: "to" }, several)).not.toThrow();
    expect(() => assertLanguages({}, one)).not.toThrow();
  });

  it.each([
    ["a language that it lacks", { srcLang: "xx", tgtLang: "fr" }, several, /xx is none of/],
    ["none", { srcLang: "en" }, several, /has no tgtLang/],
    ["languages for a model of one pair", { srcLang: "en" }, one, /one pair/],
  ])("refuses %s", (_, options, tokenizer, message) => {
    expect(() => assertLanguages(options, tokenizer)).toThrow(message);
  });
});

describe("languagesOf", () => {
  const options = { srcLang: "en", tgtLang: "fr", srcLangColumn: "from", tgtLangColumn: "to" };
  const of = (row: JsonObject) =>
    languagesOf({ row } as unknown as InferenceRequest, options, known);

  it("takes the row's own before the job's", () => {
    expect(of({ from: "fr", to: "en" })).toEqual({ source: "fr", target: "en" });
    expect(of({ from: null })).toEqual({ source: "en", target: "fr" });
  });

  it("names the column of what is no language", () => {
    const refusal = (code: string) => expect.objectContaining({ code, place: expect.anything() });
    expect(() => of({ to: "xx" })).toThrow(refusal("LANGUAGE_UNKNOWN"));
    expect(() => of({ to: 7 })).toThrow(refusal("COLUMN_INVALID"));
  });
});
