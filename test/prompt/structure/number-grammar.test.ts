import { describe, expect, it } from "vitest";
import { grammarText } from "../../../src/engines/fake/grammar-text.ts";
import type { JsonObject } from "../../../src/foundation/json.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import {
  fitsNumber,
  maxEnumeratedIntegers,
  numberGrammar,
} from "../../../src/prompt/structure/number-grammar.ts";
import { readSchema } from "../../../src/prompt/structure/read-schema.ts";
import type { NumberShape } from "../../../src/prompt/structure/shape.ts";

const shapeOf = (schema: JsonObject) => readSchema(schema, "schema").root as NumberShape;
const textsOf = (schema: JsonObject) =>
  Array.from({ length: 300 }, (_, seed) =>
    grammarText({ root: numberGrammar(shapeOf(schema)), rules: {} }, seededRandom(seed)),
  );

describe("numberGrammar", () => {
  it("names whole numbers between near bounds one by one", () => {
    const near = { type: "integer", exclusiveMinimum: -3, maximum: 2.5 };
    expect(new Set(textsOf(near))).toEqual(new Set(["-2", "-1", "0", "1", "2"]));
    const far = { type: "integer", minimum: 1, maximum: maxEnumeratedIntegers };
    expect(numberGrammar(shapeOf(far))).toMatchObject({ kind: "choice" });
    expect(numberGrammar(shapeOf({ ...far, minimum: 0 }))).toMatchObject({ kind: "sequence" });
  });

  it("has none beyond the digits that are written, and says so at once", () => {
    const beyond = { type: "integer", minimum: 1e16, maximum: 1e16 };
    expect(() => shapeOf(beyond)).toThrow("number");
    expect(numberGrammar(shapeOf({ type: "integer", minimum: 0, maximum: 1e20 }))).toMatchObject({
      kind: "sequence",
    });
  });

  it.each([
    [{ type: "integer" }, /^-?(0|[1-9]\d{0,14})$/],
    [{ type: "integer", minimum: 0, maximum: 4321 }, /^(0|[1-9]\d{0,3})$/],
    [{ type: "integer", exclusiveMaximum: -500, minimum: -99_999 }, /^-(0|[1-9]\d{0,4})$/],
    [{ type: "number" }, /^-?(0|[1-9]\d{0,14})(\.\d{1,15})?$/],
    [{ type: "number", minimum: 0, maximum: 1 }, /^\d(\.\d{1,15})?$/],
  ])("writes %j with the sign and the digits of its bounds", (schema, form) => {
    const texts = textsOf(schema);
    for (const text of texts) expect(text).toMatch(form);
    expect(new Set(texts.map((text) => text.startsWith("-"))).size).toBe(
      "minimum" in schema ? 1 : 2,
    );
  });
});

describe("fitsNumber", () => {
  it("tells multiples from numbers beside them, however large", () => {
    const fits = (value: number, multipleOf: number) =>
      fitsNumber(value, shapeOf({ type: "number", multipleOf }));
    expect([fits(0.3, 0.1), fits(123_456.78, 0.01), fits(5_000_000.12, 0.01)]).toEqual([
      ...[true, true, true],
    ]);
    expect([fits(5_000_000.123, 0.01), fits(1_000_000_001, 2), fits(0.35, 0.1)]).toEqual([
      ...[false, false, false],
    ]);
  });

  it.each([
    [{ type: "integer" }, [0, -7, 1e20], [0.5]],
    [{ type: "number", minimum: 1, exclusiveMaximum: 2 }, [1, 1.999], [0.999, 2]],
    [{ type: "number", exclusiveMinimum: 1, maximum: 2 }, [1.001, 2], [1, 2.001]],
    [{ type: "number", multipleOf: 0.01 }, [0, 0.07, -1.1, 123_456.78], [0.001, 1.005]],
  ])("of %j", (schema, fitting, others) => {
    const fits = (value: number) => fitsNumber(value, shapeOf(schema));
    expect(fitting.filter((value) => !fits(value))).toEqual([]);
    expect(others.filter(fits)).toEqual([]);
  });
});
