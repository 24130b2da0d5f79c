import { describe, expect, it } from "vitest";
import { limits } from "../../src/foundation/limits.ts";
import { compileTemplate } from "../../src/prompt/template.ts";

const render = (source: string, row = {}) =>
  compileTemplate(source, { name: "prompts.a" }).render(row);

const many = Array.from({ length: 3000 }, (_, at) => at);
const doubling = (start: string, operator: string) =>
  `{% set ns = namespace(t=${start}) %}{% for i in range(99) %}` +
  `{% set ns.t = ns.t ${operator} ns.t %}{% endfor %}{{ ns.t }}`;

describe("a template that computes without end", () => {
  it.each([
    [
      "loops",
      "{% for i in many %}{% for j in many %}{% for k in many %}{% endfor %}{% endfor %}{% endfor %}",
    ],
    ["ranges", "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"],
    ["selections", "{% for i in many %}{% for j in many if j > i %}{% endfor %}{% endfor %}"],
    ["macros", "{% macro f() %}{% for i in many %}{{ f() }}{% endfor %}{% endmacro %}{{ f() }}"],
    [
      "searches",
      "{% for i in range(9999) %}{% for j in many %}{{ 'x' in text }}{% endfor %}{% endfor %}",
    ],
    ["texts that double", doubling("'ab'", "~")],
    ["lists that double", doubling("[1]", "+")],
  ])("of %s is ended", (_, source) => {
    const row = { many, text: "y".repeat(10_000) };
    expect(() => render(source, row)).toThrow(
      expect.objectContaining({
        code: expect.stringMatching(/^TEMPLATE_(TOO_COSTLY|FAILED)$/) as string,
        message: expect.stringContaining("prompts.a: ") as string,
      }),
    );
  });

  it.each([
    ["{{ 'a\nb' | indent(999999999) }}", "indent takes a width up to"],
    ["{{ row | tojson(indent=400000000) }}", "tojson takes a width up to"],
    ["{{ '%999999999d' | format(7) }}", "format takes a width up to"],
    [doubling("99999999999", "*"), "digits"],
  ])("or writes without end is ended: %j", (source, problem) => {
    expect(() => render(source, { a: 1 })).toThrow(problem);
  });

  it("is none that lays out a long row", () => {
    const lines = many.map((at) => `line ${at}`);
    const source =
      "{% for line in lines %}{{ loop.index }}. {{ line | upper | trim }}\n{% endfor %}";
    expect(render(source, { lines })).toContain("3000. LINE 2999");
    const text = "x".repeat(limits.maxLineBytes);
    expect(render("{{ text | upper }}{{ text | trim }}", { text })).toHaveLength(2 * text.length);
  });
});

describe("a template that goes deep", () => {
  const deep = limits.maxTemplateDepth + 1;

  it.each([
    ["fields", `\n{{ text${".a".repeat(deep)} }}`, "line 2, column 1"],
    ["operators", `{{ ${Array(deep).fill("text").join(" ~ ")} }}`, "line 1, column 1"],
    ["filters", `x{{ text${" | upper".repeat(deep)} }}`, "line 1, column 2"],
    ["blocks", `${"{% if text %}".repeat(deep)}${"{% endif %}".repeat(deep)}`, ""],
    ["brackets", `{{ ${"(".repeat(9999)}1${")".repeat(9999)} }}`, "line 1, column 1"],
  ])("by its %s is refused before any row", (_, source, place) => {
    expect(() => compileTemplate(source, { name: "prompts.a" })).toThrow(
      expect.objectContaining({
        code: "TEMPLATE_INVALID",
        message: expect.stringMatching(
          new RegExp(`prompts\\.a.*${place}.*it goes (more than 500|too) deep`),
        ) as string,
      }),
    );
  });

  it("is rendered up to half of that, and however wide it is", () => {
    const half = deep >> 1;
    const blocks = `${"{% if text %}".repeat(half)}x${"{% endif %}".repeat(half)}`;
    expect(render(blocks, { text: "a" })).toBe("x");
    expect(render(`{{ ${Array(half).fill("text").join(" ~ ")} }}`, { text: "a" })).toHaveLength(
      half,
    );
    expect(render(`{{ [${"1, ".repeat(200_000)}1] | length }}`)).toBe("200001");
  });
});

it("A template longer than a plan may be is refused", () => {
  const source = "x".repeat(limits.maxTemplateSourceChars + 1);
  expect(() => compileTemplate(source, { name: "prompts.a" })).toThrow(
    "prompts.a: it is longer than 1,048,576 characters",
  );
});
