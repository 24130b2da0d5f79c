import { describe, expect, it } from "vitest";
import { contentText } from "../../src/foundation/inference.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { promptOptions } from "../../src/prompt/prompt-options.ts";
import { compilePromptSet, type PromptSetSpec } from "../../src/prompt/prompt-set.ts";

const generation = { maxNewTokens: 8, seed: 1 } as PromptSetSpec["generation"];

/** What a model reads of a row, as its line of the input has it. */
function asked(prompt: unknown, raw: string): string[] {
  const set = compilePromptSet({ prompt: promptOptions.parse(prompt), generation });
  const requests = set.requests(JSON.parse(raw) as JsonObject, 0, undefined, raw);
  return requests.map(
    ({ prompt: text, messages }) => text ?? contentText(messages!.at(-1)!.content),
  );
}

const raw =
  '{"id": 9007199254740993, "price": 1.0, "rate": 0.10, "far": 1e400, "zero": 0.0, "n": 3,' +
  ' "order": {"total": 12.50, "lines": [{"ean": 12345678901234567890, "x": 2}]}, "none": null,' +
  ' "list": [1.0, 2, 9007199254740993], "small": 0.0000001, "t": "1.0"}';

describe("numbers in prompts", () => {
  it("are written as in the row", () => {
    const texts: Record<string, string> = {
      "{{ id }} {{ price }} {{ rate }} {{ far }} {{ small }} {{ n }} {{ t }}":
        "9007199254740993 1.0 0.10 1e400 0.0000001 3 1.0",
      "{{ order.total }} {{ order.lines[0].ean }}": "12.50 12345678901234567890",
      "{{ order }}": '{"total": 12.50, "lines": [{"ean": 12345678901234567890, "x": 2}]}',
      "{{ list }} {{ list | tojson }}": "[1.0, 2, 9007199254740993] [1.0, 2, 9007199254740993]",
      "{{ row.id }} {{ row['price'] }}": "9007199254740993 1.0",
      "{% for each in list %}{{ each }};{% endfor %}": "1.0;2;9007199254740993;",
      "{% for line in order.lines %}{{ line.ean ~ '!' }}{% endfor %}": "12345678901234567890!",
      "{% set key = id %}{{ key | string }} {{ 'x' + key }}": "9007199254740993 x9007199254740993",
      "{{ list | join(', ') }} {{ list | last }} {{ [id, price] }}":
        "1.0, 2, 9007199254740993 9007199254740993 [9007199254740993, 1.0]",
      "{{ {'a': price} | tojson }} {{ id | default(1) }}": '{"a": 1.0} 9007199254740993',
    };
    for (const [prompt, text] of Object.entries(texts)) expect(asked(prompt, raw)).toEqual([text]);
    expect(asked("{{ row | tojson }}", '{"a":1.0,"b":[1e5]}')).toEqual(['{"a": 1.0, "b": [1e5]}']);
  });

  it("are numbers where they are computed with or compared", () => {
    const texts: Record<string, string> = {
      "{{ id + 1 }} {{ id - 1 }} {{ id * 2 }} {{ id // 2 }} {{ id % 10 }} {{ -id }}":
        "9007199254740994 9007199254740992 18014398509481986 4503599627370496 3 -9007199254740993",
      "{{ n * 3037000500 * 3037000500 }}": "27670116111000750000",
      "{{ price * 2 }} {{ price + n }} {{ rate < 1 }} {{ rate + 1 }}": "2.0 4.0 true 1.1",
      "{{ id == id }} {{ price == 1 }} {{ id > 9007199254740991 }} {{ id != id + 1 }}":
        "true true true true",
      "{{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }} {{ -6 % 3 }} {{ -id % 10 }}": "2 -2 -1 0 7",
      "{{ -7.0 % 3 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ -6.0 % 3 }}": "2.0 0.5 -0.5 0.0",
      "{{ id in list }} {{ 1 in list }} {{ id - 1 in list }} {{ id not in list }}":
        "true true false false",
      "{{ 'yes' if zero else 'no' }} {{ 'yes' if price else 'no' }} {{ not zero }}": "no yes true",
      "{{ id is odd }} {{ (id + 1) is even }} {{ price is number }} {{ id is integer }}":
        "true true true true",
      "{{ list | sort | join(' ') }} {{ price | abs }} {{ price | int }}":
        "1.0 2 9007199254740993 1.0 1",
      "{{ range(price) | length }} {{ range(2, n) | first }}": "1 2",
    };
    for (const [prompt, text] of Object.entries(texts)) {
      expect(asked(prompt, raw), prompt).toEqual([text]);
    }
  });

  it("keep their text as elements, in types, slots and messages", () => {
    expect(asked({ prompt: "{{ item }} of {{ id }}", forEach: "list" }, raw)).toEqual([
      "1.0 of 9007199254740993",
      "2 of 9007199254740993",
      "9007199254740993 of 9007199254740993",
    ]);
    const each = { prompt: "{{ item.ean }} {{ loop.index }}", forEach: "order.lines" };
    expect(asked(each, raw)).toEqual(["12345678901234567890 1"]);
    const system = { messages: [{ role: "user", content: "{{ price }}" }], system: "{{ id }}" };
    expect(asked(system, raw)).toEqual(["1.0"]);
    expect(asked({ type: "completion" }, '{"text": 1.0}')).toEqual(["1.0"]);
  });
});
