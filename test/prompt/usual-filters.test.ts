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

describe("usual filters", () => {
  it("compute what Jinja computes", () => {
    const results: Record<string, string> = {
      "{{ 42.55 | round(1) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ -2.5 | round }}":
        "42.5 2.0 4.0 -2.0",
      "{{ 42 | round }} {{ 1334.5 | round(-2) }} {{ 0.125 | round(2) }} {{ 2.1 | round(0, 'ceil') | int }}":
        "42 1300.0 0.12 3",
      "{{ -1.7 | int }} {{ '12.7' | int }} {{ 'x' | int(7) }} {{ id | int + 1 }}":
        "-1 12 7 9007199254740994",
      "{{ '%05.1f|%-4s|%+d|%3d%%' | format(2.25, 'a', 3, 7) }}": "002.3|a   |+3|  7%",
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
