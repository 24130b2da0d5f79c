import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseWritten, type WrittenRow } from "../../src/foundation/exact-json.ts";
import { filterNames } from "../../src/prompt/filters.ts";
import { compileTemplate } from "../../src/prompt/template.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/templates.md"), "utf8");
const row = parseWritten(/```json\n(.*)\n```/.exec(page)![1]!) as WrittenRow;
const render = (source: string) => compileTemplate(source, { name: "prompt" }).render(row);

/** The rows of the table of filters: names, example, result. */
const documented = page
  .split("\n")
  .filter((line) => line.startsWith("| `"))
  .map((line) => {
    const cells = line.split(/(?<!\\)\|/).slice(1, -1);
    const [names, , example, result] = cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
    const unquoted = [example, result].map((text) => text!.replace(/^`|`$/g, ""));
    return [names!, ...unquoted] as [string, string, string];
  });

describe("the filters of docs/templates.md", () => {
  it.each(documented)("%s: %s", (_names, example, result) => {
    expect(render(example)).toBe(result);
  });

  it("are all that there are", () => {
    const names = documented.flatMap(([cell]) =>
      Array.from(cell.matchAll(/`(\w+)/g), ([, name]) => name!),
    );
    expect([...new Set(names)].sort()).toEqual([...filterNames].sort());
  });
});

/** Rendered by Jinja 3.1.6 itself; lists as Sluice prints them. */
const byJinja: Record<string, string> = {
  '{{ tags | unique | join(", ") }} {{ tags | unique(true) | join }}': "b, A bAB",
  '{{ scores | unique | join(", ") }}': "5.0, 4.0",
  '{{ items | selectattr("order.paid") | list | length }}': "1",
  '{{ items | rejectattr("order.paid") | list | length }}': "1",
  '{{ items | selectattr("cost", "equalto", 2.5) | list | length }}': "1",
  '{{ items | selectattr("cost", "gt", 2.5) | list | length }}': "1",
  "{{ t[0] }}{{ t[-1] }}{{ t[-3] }} {{ row.t[1] }}{{ t[n * 0] }}": "😀b😀 a😀",
  "{{ 1234 | round(-2) }} {{ 1250 | round(-2) }} {{ 1350 | round(-2) }}": "1200 1200 1400",
  "{{ -1250 | round(-2) }} {{ n | round(-1) }}": "-1200 -9007199254740990",
  "{{ n | abs }} {{ -2.5 | abs }} {{ -3 | abs }}": "9007199254740993 2.5 3",
  "{{ 3 ** 40 }} {{ 5 ** 2 }} {{ 2 ** -1 }}": "12157665459056928801 25 0.5",
  "{{ longs | sort }}": "[9007199254740992, 9007199254740993]",
  '{{ "12 apples" | float(-1) }} {{ "1,299.50" | float }} {{ " 3.5 " | float }}': "-1 0.0 3.5",
  "{{ 2 | float }} {{ true | float }}": "2.0 1.0",
  '{{ tags | select("equalto", "b") | list }} {{ tags | reject("in", ["b"]) | list }}':
    '["b"] ["A", "B"]',
  "{{ order | tojson(2) }}": '{\n  "kind": "soup"\n}',
  '{{ "x" ~ (4 / 2) ~ none ~ "." }}': "x2.0.",
  '{{ "%.1f" | format(0.25) }} {{ "%.0f" | format(2.5) }} {{ "%.2f" | format(1.005) }}':
    "0.2 2 1.00",
  "{{ tags | sort(case_sensitive=true) }} {{ tags | sort(reverse=true) }}":
    '["A", "B", "b"] ["b", "B", "A"]',
  '{{ items | sort(attribute="cost", reverse=true) | map(attribute="cost") | list }}': "[3, 2.5]",
  '{{ nope | default(default_value="none") }} {{ [true, false] | sort }}': "none [false, true]",
  "{{ [order] | sort }}": '[{"kind": "soup"}]',
};

describe("what Jinja makes of it", () => {
  const given = parseWritten(
    '{"order":{"kind":"soup"},"tags":["b","A","B"],"scores":[5.0,5.0,4.0],"t":"😀ab",' +
      '"items":[{"order":{"paid":true},"cost":2.5},{"order":{"paid":false},"cost":3}],' +
      '"n":-9007199254740993,"longs":[9007199254740993,9007199254740992]}',
  ) as WrittenRow;
  const made = (source: string) => compileTemplate(source, { name: "prompt" }).render(given);

  it.each(Object.entries(byJinja))("%s is %s", (source, result) => {
    // Jinja prints `None` for none, and Sluice prints nothing.
    expect(made(source)).toBe(result);
  });

  it("finds letters of a long text at once, and ends where each search takes long", () => {
    const source = "{% for i in range(9000) %}{{ t[i] }}{% endfor %}{{ t[8000:8002] }}";
    const template = compileTemplate(source, { name: "prompt" });
    const plain = "ab".repeat(50_000);
    expect(template.render({ t: plain })).toBe(`${plain.slice(0, 9000)}ab`);
    const again = `{% for j in range(3) %}${source}{% endfor %}`;
    const long = { t: "😀".repeat(50_000) };
    expect(() => compileTemplate(again, { name: "prompt" }).render(long)).toThrow("too many steps");
  });

  it("has objects and lists behind ~ as they are printed", () => {
    expect(made('{{ "Order: " ~ order ~ tags }}')).toBe('Order: {"kind": "soup"}["b", "A", "B"]');
  });

  it.each([
    ["{{ 5 / (n - n) }}", "division by zero"],
    ["{{ 5.5 % 0 }}", "division by zero"],
    ["{{ 5 // 0 }}", "division by zero"],
    ["{{ 9 ** 99999 }}", "digits"],
    ['{{ "a" + order }}', "~ joins them as they are printed"],
    ['{{ tags | select("odd", 2) | list }}', "the test odd takes no value"],
    ['{{ tags | select("equalto") | list }}', "the test equalto takes one value"],
    ["{{ t[7] }}", "t[7]"],
    ['{{ [1, "a"] | sort }}', "sort takes texts or numbers, not both"],
  ])("refuses %s: %s", (source, message) => {
    expect(() => made(source)).toThrow(message);
  });
});

describe("usual filters", () => {
  it("compute what Jinja computes", () => {
    const results: Record<string, string> = {
      "{{ 42.55 | round(1) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ -2.5 | round }}":
        "42.5 2.0 4.0 -2.0",
      "{{ 42 | round }} {{ 1334.5 | round(-2) }} {{ 0.125 | round(2) }} {{ 2.1 | round(0, 'ceil') | int }}":
        "42 1300.0 0.12 3",
      "{{ -1.7 | int }} {{ '12.7' | int }} {{ 'x' | int(7) }} {{ id | int + 1 }}":
        "-1 12 7 9007199254740994",
      "{{ '%05.1f|%-4s|%+d|%3d%%' | format(2.25, 'a', 3, 7) }}": "002.2|a   |+3|  7%",
      "{{ [id, 1] | sum }} {{ [0.5, 1] | sum }} {{ [] | sum }}": "9007199254740994 1.5 0",
      "{{ 'a long word' | truncate(8, true, '', 0) }} {{ 'short' | truncate(3) }}":
        "a long w short",
      "{{ items | max(attribute='cost') | tojson }}": '{"kind": "soup", "cost": 4}',
      "{{ [0, 1, '', 'x'] | select | list }} {{ ['a', 'b'] | map('replace', 'a', 'c') }}":
        '[1, "x"] ["c", "b"]',
      "{{ 'abc' | reverse }} {{ order | list }} {{ 'abc' | center(6) }}|":
        'cba ["kind", "count"]  abc  |',
      "{{ 'ab' | center(5) }}|{{ 'abc' | center(6) }}|": "  ab | abc  |",
      "{{ 'école o\\'neil (well-known) WORLD' | title }} {{ 'éTÉ' | capitalize }}":
        "École O'neil (Well-Known) World Été",
      "{{ 'élan VITAL'.title() }} {{ 'éTÉ'.capitalize() }}": "Élan Vital Été",
      "{{ 'it\\'s (a) *b*!' | urlencode }}": "it%27s%20%28a%29%20%2Ab%2A%21",
      "{{ [{'k': 2, 'n': 'a'}, {'k': 2, 'n': 'b'}] | max(attribute='k') | get('n') }}": "a",
      "{{ [{'k': 2, 'n': 'a'}, {'k': 2, 'n': 'b'}] | min(attribute='k') | get('n') }}": "a",
      "{{ [{'k': 1}, {'k': '1'}] | groupby('k') | length }}": "2",
      "{{ [{'k': id}, {'k': price}, {'k': 12.5}] | groupby('k') | length }}": "2",
      "{{ 'a long word' | truncate(8) }} {{ 'a longer word' | truncate(7) }}": "a long word a...",
    };
    for (const [source, text] of Object.entries(results)) expect(render(source), source).toBe(text);
  });

  it("say what does not fit", () => {
    const faults: Record<string, string> = {
      "{{ text | round }}": "round takes a number, not a text",
      "{{ n | batch(2) }}": "batch takes a list, not a number",
      "{{ items | groupby('nope') }}": "groupby by nope: an element lacks it",
      "{{ [] | max }}": "max takes a list that is not empty",
      "{{ '%s %s' | format(1) }}": "format has no value for %s",
      "{{ '%d' | format('a') }}": "format takes a number for %d, not a text",
      "{{ order | truncate }}": "truncate takes a text, not an object",
      "{{ tags | map('nope') }}": "no filter nope",
    };
    for (const [source, message] of Object.entries(faults)) {
      expect(() => render(source), source).toThrow(message);
    }
  });
});

describe("a long text in a filter", () => {
  it.each(["<", "<!--", "<!-- -- ", ">", "% 0", "%0", "%1."])(
    "ends at once for many %j",
    (part) => {
      const long = part.repeat(Math.floor(600_000 / part.length));
      const renderLong = (filter: string) =>
        compileTemplate(`{{ long | ${filter} }}`, { name: "prompt" }).render({ long });
      expect(renderLong("striptags")).not.toContain("<b>");
      expect(renderLong("format('x')").length).toBeLessThanOrEqual(long.length);
    },
  );
});

/** The hint of the error of a template. */
function hintFor(source: string): string | undefined {
  try {
    render(source);
  } catch (error) {
    return (error as { hint?: string }).hint;
  }
  return undefined;
}

describe("a name with spaces", () => {
  it("is told how to be written", () => {
    for (const source of ["About {{ Review Text }}", "{% if Review Text %}x{% endif %}"]) {
      expect(hintFor(source), source).toContain('row["Review Text"]');
    }
    // A block without its end, and a statement that is not there.
    for (const source of ["{% for x in text %}", "{% if text is defined %}", "{% else if x %}"]) {
      expect(hintFor(source), source).toBe("see docs/templates.md");
    }
    const template = compileTemplate('{{ row["Review Text"] }}', { name: "prompt" });
    expect(template.render({ "Review Text": "fine" })).toBe("fine");
  });
});
