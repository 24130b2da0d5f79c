import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { compileExpression } from "../../src/prompt/expression.ts";

const row: JsonObject = {
  directions: ["Mix it. Bake it.", null, "Cool."],
  n: 2,
  empty: [],
  deep: { k: [1, "z", null, { q: false }] },
  nothing: null,
};
const evaluate = (source: string, extra?: JsonObject) =>
  compileExpression(source, { name: "prompts.p.forEach" }).evaluate(row, extra);

describe("compileExpression", () => {
  it.each([
    ["directions | sentences", ["Mix it.", "Bake it.", "Cool."]],
    ["directions[0] | words", ["Mix", "it.", "Bake", "it."]],
    ["'a\\n\\n b ' | lines", ["a", "b"]],
    ["deep.k", [1, "z", null, { q: false }]],
    ["[n, n * 2, {'a': none}]", [2, 4, { a: null }]],
    ["directions[:1]", ["Mix it. Bake it."]],
    ["missing | default([])", []],
    ["nothing or []", []],
    ["nothing", null],
    ["empty", []],
  ])("%s", (source, value) => {
    expect(evaluate(source)).toEqual(value);
  });

  it("takes extra variables first", () => {
    expect(evaluate("item", { item: { a: 1 } })).toEqual({ a: 1 });
    expect(evaluate("n + 1", { n: 40 })).toBe(41);
  });

  it.each([
    ["missing", "VARIABLE_MISSING", "missing"],
    ["deep.z | sentences", "VARIABLE_MISSING", "deep.z"],
    ["n | words", "FIELD_TYPE", "n"],
    ["nothing | sentences", "FIELD_TYPE", "nothing"],
    ["'' if missing is defined", "FIELD_TYPE", undefined],
  ])("%s fails with %s", (source, code, field) => {
    expect(() => evaluate(source)).toThrow(
      expect.objectContaining({ code, place: expect.objectContaining({ field }) }),
    );
  });

  it.each(["", "a }} {{ b", "a |", "{% if a %}", "{{ a }}", "a }}{% if b %}{% endif %}{{ c"])(
    "%j is no expression",
    (source) => {
      expect(() => evaluate(source)).toThrow(expect.objectContaining({ code: "TEMPLATE_INVALID" }));
    },
  );
});
