import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/foundation/json.ts";
import { candidateSpans } from "../../../src/foundation/spans.ts";
import {
  compileStructuredForm,
  maxEnumeratedSpans,
} from "../../../src/prompt/structure/structured-form.ts";
import { formOf, list, objectOf } from "./schemas.ts";

const step = "Heat to 375 degrees F (190 degrees C).  Bake for 12 minutes; turn; bake 5 minutes.";
const measure = {
  type: ["string", "null"],
  copyFrom: "item",
  maxWords: 3,
  pattern: "\\d+ (minutes|degrees [CF])",
};
const measures = objectOf({ all: list(objectOf({ what: { type: "string" }, measure })) });

describe("a field that copies", () => {
  it("is written from the words of its text, or left empty, in an array as well", () => {
    const form = formOf(measures, {}, step);
    const found = new Set<Json>();
    for (const text of form.texts(300)) {
      const { value, spans } = form.accept(text);
      expect(value).toEqual(JSON.parse(text));
      for (const [at, { measure }] of (value as { all: { measure: Json }[] }).all.entries()) {
        found.add(measure);
        const place = spans![`/all/${at}/measure`];
        if (measure === null) expect(place).toBeUndefined();
        else expect(step.slice(...place!)).toBe(measure);
      }
    }
    const written = ["375 degrees F", "190 degrees C", "12 minutes", "5 minutes", null];
    expect([...found].sort()).toEqual(written.sort());
  });

  it("says where its words stand, in the spelling of the text", () => {
    const schema = objectOf({ what: { type: "string", copyFrom: "text", orElse: "none" } });
    const row = { text: "  Mix\n the   “warm” milk — slowly. 🥛 Stir." };
    const { accept } = formOf(schema, row);
    const answer = accept('{"what": "THE warm milk"}');
    expect(answer.value).toEqual({ what: "the “warm” milk" });
    expect(row.text.slice(...answer.spans!["/what"]!)).toBe("the   “warm” milk");
    expect(accept('{"what": "none"}')).toMatchObject({ value: { what: "none" }, spans: {} });
    const stir = accept('{"what": "🥛 Stir"}').spans!["/what"]!;
    expect(row.text.slice(...stir)).toBe("🥛 Stir");
  });

  it("refuses what does not stand there, what is too long, and what has not the form", () => {
    const { accept } = formOf(measures, {}, step);
    const wrong = (measure: string) => () => accept(`{"all":[{"what":"","measure":${measure}}]}`);
    expect(wrong('"11 minutes"')).toThrow(
      '/all/0/measure is "11 minutes", not copied word by word from "Heat to 375 degrees F (190',
    );
    expect(wrong('"11 minutes"')).toThrow("write null where there is nothing to copy");
    expect(wrong('"for 12 minutes; turn"')).toThrow(
      'has 4 words ("for 12 minutes; turn"), at most',
    );
    expect(wrong('"turn"')).toThrow(
      'is "turn", which does not have the form \\d+ (minutes|degrees',
    );
    expect(wrong("12")).toThrow("/all/0/measure must be a text, not a number");
    expect(wrong('""')).toThrow("not copied word by word");
  });

  it("is sent as the list of what it may hold, as long as that is not too long", () => {
    const two = objectOf({ a: measure, b: { type: "string", copyFrom: "item", maxWords: 30 } });
    const { structure } = formOf(two, {}, step);
    const few = candidateSpans(structure.copies![0]!);
    expect(structure.schema.properties).toEqual({
      a: { type: ["string", "null"], enum: [null, ...few] },
      b: { type: "string", enum: ["", ...candidateSpans(structure.copies![1]!)] },
    });
    const long = Array.from({ length: maxEnumeratedSpans }, (_, at) => `word${at}`).join(" ");
    expect(formOf(two, {}, `${long} 5 minutes`).structure.schema.properties).toEqual({
      a: { type: ["string", "null"], enum: [null, "5 minutes"] },
      b: { type: "string" },
    });
  });

  it("takes each row's own text, and escapes it", () => {
    const form = compileStructuredForm({ type: "string", copyFrom: "a ~ b" }, "schema");
    expect(form.variables.toSorted()).toEqual(["a", "b"]);
    const row = { a: 'He said: "yes', b: '" \\ and\tleft' };
    const { accept, texts } = formOf({ type: "string", copyFrom: "a ~ b", maxWords: 5 }, row);
    const values = texts(200).map((text) => accept(text).value);
    expect(values).toContain('said: "yes" \\');
  });

  it("accepts whatever it may be filled with, and finds it in the text", () => {
    const pieces = [
      "a",
      "B",
      "5",
      "½",
      ".5",
      "-1",
      "—",
      "-",
      "(",
      ")",
      '"',
      "\\",
      "é",
      "🥛",
      ",",
      ".",
    ];
    const blanks = ["", " ", "  ", "\n", "\t ", "\u00a0"];
    const piece = fc.tuple(fc.constantFrom(...pieces), fc.constantFrom(...blanks));
    const schema = objectOf({ copy: { type: ["string", "null"], copyFrom: "item", maxWords: 4 } });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 25 }), (parts) => {
        const source = parts.flat().join("");
        const { accept, structure } = formOf(schema, {}, source);
        for (const candidate of candidateSpans(structure.copies![0]!)) {
          const { value, spans } = accept(JSON.stringify({ copy: candidate }));
          expect(value).toEqual({ copy: candidate });
          const found = source.slice(...spans!["/copy"]!);
          expect(found.replace(/\s+/gu, " ")).toBe(candidate);
        }
      }),
      { numRuns: 300, seed: 5 },
    );
  });

  it("fails the row where there is no text, or too much of it", () => {
    const form = compileStructuredForm(measures, "schema");
    const key = "schema.properties.all.items.properties.measure.copyFrom: item is a list";
    expect(() => form.sources({}, { item: [1] })).toThrow(key);
    expect(() => form.ask(form.sources({}, { item: "a ".repeat(2000) }))).toThrow(
      "would copy from 2000 words",
    );
    expect(formOf(measures, {}, "").accept('{"all": []}').value).toEqual({ all: [] });
  });

  it("may stand in something that refers to itself", () => {
    const parts = objectOf({
      name: { type: "string", copyFrom: "text", maxWords: 1 },
      parts: list({ $ref: "#" }),
    });
    const { accept, texts } = formOf(parts, { text: "wheel of steel" });
    for (const text of texts(50)) expect(() => accept(text)).not.toThrow();
    const { spans } = accept('{"name": "", "parts": [{"name": "steel", "parts": []}]}');
    expect(spans).toEqual({ "/parts/0/name": [9, 14] });
  });
});
