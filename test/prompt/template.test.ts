import { Template as LibraryTemplate } from "@huggingface/jinja";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import { compileTemplate } from "../../src/prompt/template.ts";

const row: JsonObject = {
  a: "x",
  empty: null,
  i: 3,
  list: ["p", "q"],
  vacant: [],
  deep: { b: { c: 1 }, items: [{ name: "n" }] },
  text: "One. Two.",
};

const render = (source: string, extra?: JsonObject) =>
  compileTemplate(source, { name: "prompts.p" }).render(row, extra);

function failure(source: string): { code: string; field: string | undefined; message: string } {
  try {
    render(source);
  } catch (thrown) {
    const { code, place, message } = thrown as { code: string; place: never; message: string };
    return { code, field: (place as { field?: string }).field, message };
  }
  throw new Error(`${source} did not fail`);
}

describe("equality", () => {
  it("is that of Python, but for texts that spell a number, as fields of CSV do", () => {
    const results: Record<string, string> = {
      "{{ i == 3 }} {{ i == 3.0 }} {{ i == '3' }} {{ '3' == i }} {{ i != '3' }}":
        "true true true true false",
      "{{ i == '3.0' }} {{ i == '3x' }} {{ i == '03' }} {{ true == '1' }} {{ '3' == '3.0' }}":
        "true false false false false",
      "{{ vacant == [] }} {{ vacant != [] }} {{ vacant == '' }} {{ list == ['p', 'q'] }}":
        "true false false true",
      "{{ list == ['p'] }} {{ ['p'] == 'p' }} {{ list == ['q', 'p'] }}": "false false false",
      "{{ deep.b == {'c': 1.0} }} {{ deep.b == {'d': 1} }} {{ deep.b == {'c': 1, 'd': 1} }}":
        "true false false",
      "{{ empty == none }} {{ empty == 0 }} {{ '' == 0 }} {{ true == 1 }} {{ true == 'true' }}":
        "true false false true false",
      "{{ '3' in [3] }} {{ [1] in [[1]] }} {{ {'c': 1} in [deep.b] }} {{ [] not in [[1]] }}":
        "true true true true",
    };
    for (const [source, text] of Object.entries(results)) expect(render(source), source).toBe(text);
  });
});

describe("a template of fields only", () => {
  const key = fc.constantFrom("a", "b", "length", "items", "constructor", "__proto__");
  const names = fc.array(key, { maxLength: 3 });
  const value = fc.jsonValue({ maxDepth: 3 });
  const rows = fc.dictionary(key, fc.oneof(value, fc.dictionary(key, value)));
  const steps = fc.array(
    fc.oneof(
      key.map((name) => `.${name}`),
      fc.integer({ min: -2, max: 2 }).map((at) => `[${at}]`),
      key.map((name) => `['${name}']`),
    ),
    { maxLength: 3 },
  );
  const outcome = (source: string, over: JsonObject) => {
    try {
      return compileTemplate(source, { name: "p" }).render(over);
    } catch (thrown) {
      const { code, place, message } = thrown as { code: string; place: unknown; message: string };
      return [code, place, code === "VARIABLE_MISSING" ? message : ""];
    }
  };

  it("renders and fails as the interpreter does", () => {
    fc.assert(
      fc.property(rows, names, steps, fc.string(), (over, roots, path, text) => {
        const fixed = text.replace(/[{}]/g, "");
        const fields = ["a", ...roots].map((name) => `{{ ${name}${path.join("")} }}`);
        const source = `${fixed}${fields.join(fixed)}${fixed}`;
        const parsed = JSON.parse(JSON.stringify(over)) as JsonObject;
        // An operation is enough to make the same template interpreted.
        expect(outcome(source, parsed)).toEqual(outcome(`${source}{{ '' ~ '' }}`, parsed));
      }),
      { numRuns: 1000 },
    );
  });

  it("prints every value as the library does", () => {
    fc.assert(
      fc.property(value, (given) => {
        const over = JSON.parse(JSON.stringify({ a: given })) as JsonObject;
        const source = "<{{ a }}|{{- a }}>";
        const expected = new LibraryTemplate(source).render(over);
        expect(compileTemplate(source, { name: "p" }).render(over)).toBe(expected);
      }),
      { numRuns: 500 },
    );
  });

  it("never takes a row's text for template", () => {
    const over = { a: "{{ secret }}{% if x %}", secret: "s" };
    expect(compileTemplate("{{ a }}", { name: "p" }).render(over)).toBe(over.a);
    expect(compileTemplate("{{ a | trim }}", { name: "p" }).render(over)).toBe(over.a);
  });
});

describe("what a row has", () => {
  it.each([
    ["{{ a }}{{ i }}{{ deep.b.c }}", "x31"],
    ["[{{ empty }}]", "[]"],
    ["{{ row.a }}{{ row['a'] }}", "xx"],
    ["{{ text | sentences | join('/') }}", "One./Two."],
    ["{{ [1, none, {'k': [true]}] | join('; ') }}", '1; ; {"k": [true]}'],
    ["{{ deep['items'] | join(', ', attribute='name') }}", "n"],
    ["{% for k, v in deep.items() %}{{ k }} {% endfor %}", "b items "],
    ["{% for s in list if s != 'p' %}{{ loop.index }}{{ s }}{% endfor %}", "1q"],
    ["{% filter upper %}ab{{ a }}{% endfilter %}", "ABX"],
    ["{{ list | length }}{{ range(2) }}", "2[0, 1]"],
    ["a{# note #}b\n{%- if true %}\n c{% endif %}", "ab c"],
  ])("%s", (source, text) => {
    expect(render(source)).toBe(text);
  });

  it("goes behind the variables of a forEach", () => {
    expect(render("{{ a }}{{ item.k }}", { a: "mine", item: { k: 1 } })).toBe("mine1");
    expect(render("{{ a | upper }}", { a: "mine" })).toBe("MINE");
  });
});

describe("what a row lacks", () => {
  it.each([
    ["{{ z }}", "z"],
    ["{{ z | upper }}", "z"],
    ["{{ deep.z }}", "deep.z"],
    ["{{ deep.b.z.y }}", "deep.b.z"],
    ["{{ deep.b.z | upper }}", "deep.b.z"],
    ["{{ row.deep.z }}", "deep.z"],
    ["{{ list[5] }}", "list[5]"],
    ["{{ vacant | first }}", "vacant | first"],
    ["{{ deep['items'][0].z ~ '' }}", "deep.items[0].z"],
    ["{% for s in z %}{{ s }}{% endfor %}", "z"],
    ["{% for s in deep['items'] %}{{ s.z }}{% endfor %}", "s.z"],
    ["{% if z %}a{% endif %}", "z"],
    ["{% if z == 1 %}a{% endif %}", "z"],
    ["{% set y = z %}", "z"],
    ["{% for s in list %}{% set y = s %}{% endfor %}{{ y }}", "y"],
    ["{{ z or 'b' }}", "z"],
    ["{{ a | default(b) }}{{ z | default(b) }}", "b"],
    ["{{ range }}", "range"],
    ["{{ deep.keys }}", "deep.keys"],
    ["{{ '' ~ constructor }}", "constructor"],
  ])("%s is an error naming the field", (source, field) => {
    expect(failure(source)).toMatchObject({
      code: "VARIABLE_MISSING",
      field,
      message: expect.stringContaining("prompts.p"),
    });
  });

  it.each([
    ["{{ lits }}", "list"],
    ["{{ lits | length }}", "list"],
    ["{{ deep.itms }}", "items"],
    ["{{ deep.itms | length }}", "items"],
    ["{{ row.deep['Items'] }}", "items"],
  ])("%s is taken for a slip of %s", (source, meant) => {
    expect(failure(source).message).toContain(`did you mean ${meant}?`);
  });

  it.each(["{{ unlike }}", "{{ z }}", "{{ list[5] }}"])("%s is no slip of anything", (source) => {
    expect(failure(source).message).not.toContain("did you mean");
  });

  it.each([
    ["{{ z | default('D') }}", "D"],
    ["{{ z | default }}", ""],
    ["{{ z | d('D') }}", "D"],
    ["{{ deep.z.y.x | default('D') }}", "D"],
    ["{{ empty.z | default('D') }}", "D"],
    ["{{ i.z | default('D') }}", "D"],
    ["{{ z | trim | default('D') }}", "D"],
    ["{{ vacant | first | default('D') }}", "D"],
    ["{{ (z or y) | default('D') }}", "D"],
    ["{{ z | default(y) | default('D') }}", "D"],
    ["{{ empty | default('D') }}", ""],
    ["{{ empty | default('D', true) }}", "D"],
    ["{% if z is defined %}{{ z }}{% else %}no{% endif %}", "no"],
    ["{% if z is not defined %}no{% endif %}", "no"],
    ["{% if deep.z.y is undefined %}no{% endif %}", "no"],
    ["{% if z is defined and z.y %}a{% endif %}b", "b"],
    ["{{ z if z is defined else 'no' }}", "no"],
    ["{% if false %}{{ z }}{% endif %}b", "b"],
    ["{% for s in list %}{{ s }}{{ loop.nextitem }}{% endfor %}", "pqq"],
    ["{% set y = 4 %}{{ y }}", "4"],
    ["{% macro m(x, y) %}{{ x }}[{{ y }}]{% endmacro %}{{ m(1) }}", "1[]"],
    ["{% set ns = namespace(k=1) %}{% set ns.k = 2 %}{{ ns.k }}", "2"],
    ["{{ deep.get('z') }}", ""],
  ])("%s is guarded, or no field", (source, text) => {
    expect(render(source)).toBe(text);
  });
});

describe("fields of another type", () => {
  it.each([
    ["{{ i | join(',') }}", "i"],
    ["{{ i | sentences }}", "i"],
    ["{{ empty.b }}", "empty.b"],
    ["{{ i.b }}", "i.b"],
    ["{{ a.b }}", "a.b"],
    ["{{ list.b }}", "list.b"],
    ["{{ deep[0] }}", "deep[0]"],
    ["{{ empty.b.c ~ '' }}", "empty.b"],
    ["{% for s in i %}{% endfor %}", "i"],
    ["{{ i + empty }}", "empty"],
    ["{{ a is odd }}", "a"],
    ["{{ a.upper }}", "a.upper"],
  ])("%s", (source, field) => {
    expect(failure(source)).toMatchObject({ code: "FIELD_TYPE", field });
  });

  it("says in plain words what does not fit", () => {
    expect(failure("{% for s in i %}{% endfor %}").message).toContain("a whole number");
  });
});

describe("templates that fail", () => {
  it.each(["{{ raise_exception('no steps') }}", "{{ range(100000000) }}", "{{ (1)() }}"])(
    "%s names the prompt",
    (source) => {
      const { code, message } = failure(source);
      expect(code).toBe("TEMPLATE_FAILED");
      expect(message).toContain("prompts.p");
    },
  );

  it.each(["{{ a | tojson }}", "{{ a }}"])("%s of a row nested too deep", (source) => {
    const deep = JSON.parse(`${"[".repeat(50_000)}${"]".repeat(50_000)}`) as never;
    const template = compileTemplate(source, { name: "p" });
    expect(() => template.render({ a: deep })).toThrow(
      expect.objectContaining({ code: "TEMPLATE_FAILED" }),
    );
  });

  it.each([
    ["{{ a", "line 1, column 1", "never closed"],
    ["x\n {% if a %}b", "line 2, column 2", "if is never closed by endif"],
    ["{% for s on list %}{% endfor %}", "line 1, column 1", "Expected `in`"],
    ["\n{% endif %}", "line 2, column 1", "without anything open"],
    ["{% if a %}{% endfor %}{% endif %}", "column 11", "endif is expected"],
    ["a {{ b c }}", "column 3", "found Identifier"],
    ["a\n\n{{ 'x }}", "line 3", "never closed"],
    ["{{ a | uper }}", "column 1", "did you mean upper?"],
    ["{% if a is defind %}{% endif %}", "column 1", "did you mean defined?"],
    ["{% include 'x' %}", "column 1", "Unknown statement type: include"],
    ["{# a", "column 1", "never closed"],
    ["{{ a + }}", "column 1", "Unexpected token"],
  ])("%j is invalid, and the message says where", (source, where, problem) => {
    const compile = () => compileTemplate(source, { name: "prompts.p", file: "job.yaml" });
    expect(compile).toThrow(
      expect.objectContaining({
        code: "TEMPLATE_INVALID",
        message: expect.stringMatching(/prompts\.p.*job\.yaml/),
      }),
    );
    expect(compile).toThrow(where);
    expect(compile).toThrow(problem);
  });
});

describe("variables", () => {
  it("are the names that come from outside the template", () => {
    const source =
      "{{ a.b }}{% for s in list %}{{ s }}{% endfor %}{% set y = 1 %}{{ y }}{{ range(2) }}" +
      "{{ item | upper }}{{ none }}{% if q is defined %}{% endif %}";
    expect([...compileTemplate(source, { name: "p" }).variables].sort()).toEqual([
      ...["a", "item", "list", "q"],
    ]);
  });
});
