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
    ["lists that are printed", "{% for i in range(9999) %}{{ many }}{% endfor %}"],
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

describe("a template that takes much memory", () => {
  const { maxTemplateElements } = limits;
  const shared = (times: number) =>
    `{% set a = [1${", 1".repeat(9)}] %}${`{% set a = [a${", a".repeat(9)}] %}`.repeat(times)}`;
  const tooMany = "a list gets more than 1,000,000 elements";
  const tooLong = "its text gets longer than 33,554,432 characters";
  const tooCostly = "it takes too many steps";
  const text = "a ".repeat(maxTemplateElements + 1);
  const row = {
    text,
    few: "word ".repeat(100_000),
    words: Array(20_000).fill("word"),
    many: Array(900_000).fill(1),
    more: Array(maxTemplateElements + 1).fill(1),
    lines: "x\n".repeat(maxTemplateElements + 1),
    sentences: "Abc. ".repeat(maxTemplateElements + 1),
  };

  it.each([
    ["words", "{{ text | words | length }}", tooMany],
    ["words of a method", "{{ text.split() | length }}", tooMany],
    ["pieces of a method", "{{ text.split('a') | length }}", tooMany],
    ["lines", "{{ lines | lines | length }}", tooMany],
    ["sentences", "{{ sentences | sentences | length }}", tooMany],
    ["letters", "{{ text | list | length }}", tooMany],
    ["letters backwards", "{{ text[::-1] }}", tooMany],
    ["elements of the row", "{{ more | length }}", tooMany],
    ["elements that fill a batch", "{{ [1] | batch(99999999, 0) | length }}", tooMany],
    ["lists in lists", `${shared(9)}{{ a | length }}`, tooMany],
    ["lists that hold a namespace", shared(9).replace("1", "namespace()"), tooMany],
    ["texts in lists", "{% set a = [text, text, text, text] %}{{ [a, a, a, a, a] }}", tooLong],
    ["replaced letters", "{{ text | replace('a', text) | length }}", tooLong],
    ["letters replaced by a method", "{{ text.replace('a', text) | length }}", tooLong],
    ["joined words", "{{ words | join(text) | length }}", tooLong],
    ["indented lines", "{{ lines | truncate(900000) | indent(10000) | length }}", tooLong],
    ["indented elements", "{{ words | tojson(indent=10000) | length }}", tooLong],
    ["escaped letters", "{{ text | replace('a', '&&&&&&&&') | escape | length }}", tooLong],
    [
      "values put into a text",
      `{{ '${"%s".repeat(20)}' | format(${"text, ".repeat(20)}) }}`,
      tooLong,
    ],
    ["lists that are kept", "{% set b = many[1:] %}".repeat(99), tooCostly],
    ["words that are kept", "{% set b = few | words %}".repeat(99), tooCostly],
    ["arguments", "{% macro f() %}{{ f(*varargs) }}{% endmacro %}{{ f(*words) }}", tooCostly],
  ])("for %s is ended", (_, source, problem) => {
    expect(() => render(source, row)).toThrow(
      expect.objectContaining({
        code: "TEMPLATE_TOO_COSTLY",
        message: expect.stringContaining(`prompts.a: ${problem}`) as string,
      }),
    );
  });

  it("is none that cuts a long text", () => {
    const long = "😀 a <b>".repeat(1_000_000);
    expect(render("{{ t[:3] }}|{{ t[-4:-1] }}|{{ t | truncate(5) }}", { t: long })).toBe(
      "😀 a| <b|😀...",
    );
    expect(render("{{ t | length }} {{ t | wordcount }}", { t: long })).toBe("7000000 2000000");
    expect(render("{{ t | trim('😀 a<>') | length }}", { t: long })).toBe("6999994");
    expect(render("{{ t | striptags | length }}", { t: long })).toBe("3999999");
    const short = "{{ t | escape | title | length }}";
    expect(render(short, { t: "a-b &".repeat(1_000_000) })).toBe("9000000");
  });

  it("is none that walks a row of 1 MiB, or joins a list of 100,000 words", () => {
    const long = "abc ".repeat(2 ** 18);
    const walk = "{% for word in long | words %}{{ word }} {% endfor %}";
    expect(render(walk, { long })).toBe(long);
    const join = "{{ few | words | map('upper') | join('-') | lower | length }}";
    expect(render(join, row)).toBe("499999");
    const append = "{% set ns.t = ns.t + [i] %}{% endfor %}{{ ns.t | length }}";
    const list = `{% set ns = namespace(t=[]) %}{% for i in many %}${append}`;
    expect(render(list, { many })).toBe("3000");
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
    expect(render(`{{ [${"1, ".repeat(50_000)}1] | length }}`)).toBe("50001");
  });
});

it("A template longer than a plan may be is refused", () => {
  const source = "x".repeat(limits.maxTemplateSourceChars + 1);
  expect(() => compileTemplate(source, { name: "prompts.a" })).toThrow(
    "prompts.a: it is longer than 1,048,576 characters",
  );
});
