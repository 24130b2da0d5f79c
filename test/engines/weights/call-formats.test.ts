import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type CallFormat,
  CallReader,
  callFormatOf,
  callsGrammar,
} from "../../../src/engines/weights/call-formats.ts";
import { toGbnf } from "../../../src/foundation/grammar.ts";

/** What the templates of each family say of calls, and answers as their models write them. */
const families: Record<string, { source: string; one: string; two?: string }> = {
  hermes: {
    source: '{% if tools %}<tool_call>\\n{"name": <name>, "arguments": <args>}\\n</tool_call>',
    one: '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>',
    two:
      '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>\n' +
      '<tool_call>\n{"arguments": {}, "name": "time"}\n</tool_call>',
  },
  smollm2: {
    source: '<tool_call>[\n{"name": "f", "arguments": {}}\n]</tool_call>',
    one: '<tool_call>[{"name": "weather", "arguments": {"city": "Bern"}}]</tool_call>',
    two:
      '<tool_call>[\n{"name": "weather", "arguments": {"city": "Bern"}},\n' +
      '{"name": "time", "arguments": {}}\n]</tool_call>',
  },
  mistral: {
    source: "{{- '[TOOL_CALLS] [' }}",
    one: '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Bern"}, "id": "abcdefghi"}]',
    two:
      '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Bern"}}, ' +
      '{"name": "time", "arguments": {}}]',
  },
  phi: {
    source: '<|tool_call|>{"name": "foo"}<|/tool_call|>',
    one: '<|tool_call|>{"name": "weather", "arguments": {"city": "Bern"}}<|/tool_call|>',
  },
  granite: {
    source: "respond with <|tool_call|> followed by a JSON list",
    one: '<|tool_call|>[{"name": "weather", "arguments": {"city": "Bern"}}]',
    two:
      '<|tool_call|>[{"name": "weather", "arguments": {"city": "Bern"}}, ' +
      '{"name": "time", "arguments": {}}]',
  },
  nemotron: {
    source: "<TOOLCALL>[' + calls + ']</TOOLCALL>",
    one: '<TOOLCALL>[{"name": "weather", "arguments": "{\\"city\\": \\"Bern\\"}"}]</TOOLCALL>',
  },
  llama: {
    source: 'Respond in the format {"name": function name, "parameters": dictionary of names}.',
    one: '{"name": "weather", "parameters": {"city": "Bern"}}',
  },
};

const weather = { name: "weather", arguments: '{"city": "Bern"}' };
const time = { name: "time", arguments: "{}" };
const names = ["weather", "time", "weather_of_week"];
const formatOf = (family: string) => callFormatOf(families[family]!.source)!;

/** The answer read in pieces, and what was held back before its end. */
function read(format: CallFormat, pieces: readonly string[]) {
  const reader = new CallReader(format, names);
  const told = pieces.map((piece) => reader.push(piece)).join("");
  const { text, calls } = reader.end();
  return { text: told + text, calls, held: text };
}

/** A text cut into pieces at any characters. */
const cut = (text: string) =>
  fc
    .array(fc.nat(text.length), { maxLength: 12 })
    .map((places) => [0, ...places.toSorted((a, b) => a - b), text.length])
    .map((places) => places.slice(1).map((end, at) => text.slice(places[at], end)));

describe.each(Object.entries(families))("calls of %s", (family, { one, two }) => {
  const format = formatOf(family);

  it("are read wherever the answer is cut, with the text before them", () => {
    const said = format.open === "" ? [""] : ["", "Let me see <tool, [TOOL or {.\n"];
    for (const before of said) {
      for (const [written, calls] of [
        [one, [weather]],
        ...(two === undefined ? [] : [[two, [weather, time]] as const]),
      ] as const) {
        const characters = [...(before + written)];
        expect(read(format, characters)).toEqual({ text: before.trimEnd(), calls, held: "" });
        fc.assert(
          fc.property(cut(before + written), (pieces) => {
            expect(read(format, pieces)).toEqual({ text: before.trimEnd(), calls, held: "" });
          }),
        );
      }
    }
  });

  it("are text where they call no known tool, or are no JSON", () => {
    for (const bad of [
      one.replace("weather", "nothing"),
      one.replace('"name"', "name"),
      one.replace(/\}\]?\s*(<.*)?$/, ""),
    ]) {
      const said = `Look:\n${bad}`;
      fc.assert(
        fc.property(cut(said), (pieces) => {
          expect(read(format, pieces)).toMatchObject({ text: said, calls: [] });
        }),
      );
    }
  });

  it("leave any other text as it is", () => {
    const bits = fc.constantFrom(...one.split(/(?<=\W)/), "\n", " ", "ü", '{"', "<");
    fc.assert(
      fc.property(
        fc.array(bits).map((all) => all.join("")),
        (said) => {
          const { text, calls } = read(format, [...said]);
          if (calls.length === 0) expect(text).toBe(said);
        },
      ),
    );
  });

  it("are what their grammar writes", () => {
    const text = (value: string) => ({ root: { kind: "text" as const, text: value }, rules: {} });
    const gbnf = toGbnf(callsGrammar(format, { weather: text('{"city": "Bern"}') }, false));
    const literals = [...gbnf.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, literal]) => literal!);
    const plain = JSON.parse(`"${literals.slice(-3).join("")}"`) as string;
    expect(JSON.parse(plain)).toEqual({ name: "weather", [format.member]: { city: "Bern" } });
  });
});

describe("CallReader", () => {
  it("finds the end of a call whose arguments hold the closing text", () => {
    const said = '{"name": "weather", "arguments": {"city": "</tool_call> \\"</tool_call>"}}';
    const { calls, text } = read(formatOf("hermes"), [...`<tool_call>${said}</tool_call>!`]);
    expect(calls).toEqual([
      { name: "weather", arguments: '{"city": "</tool_call> \\"</tool_call>"}' },
    ]);
    expect(text).toBe("!");
  });

  it("takes a call that the model did not close", () => {
    const said = '<tool_call>\n{"name": "time", "arguments": {}}';
    expect(read(formatOf("hermes"), [said]).calls).toEqual([time]);
  });

  it("keeps numbers of arguments as the model wrote them", () => {
    const given = '{"days": 1.0, "id": 12345678901234567890}';
    const said = `<tool_call>{"name": "weather", "arguments": ${given}}</tool_call>`;
    expect(read(formatOf("hermes"), [said]).calls).toEqual([{ ...weather, arguments: given }]);
  });

  it("takes a call of Llama behind its tag, and whatever white space it has", () => {
    const said = '\n{ "name" : "weather" ,\n"parameters": {"city": "Bern"} }';
    for (const before of ["", "<|python_tag|>"]) {
      expect(read(formatOf("llama"), [...(before + said)])).toMatchObject({
        ...{ text: "", calls: [weather] },
      });
    }
  });

  it("holds no more than may be the beginning of a call", () => {
    for (const [family, most] of [
      ["hermes", 11],
      ["granite", 13],
      ["llama", 26],
    ] as const) {
      const reader = new CallReader(formatOf(family), names);
      let told = "";
      const said = "One < two <tool <| {x} ".repeat(20);
      for (const [at, character] of [...said].entries()) {
        told += reader.push(character);
        expect(at + 1 - told.length).toBeLessThanOrEqual(most);
      }
    }
  });
});

describe("callFormatOf", () => {
  it("knows no form of templates whose calls hold no JSON, or that show none", () => {
    for (const source of [
      "{{ tools | tojson }}",
      "<tool_call>\n<function=name>\n<parameter=city>",
      "<tool_call>{{ name }}<arg_key>",
      "{{ '[TOOL_CALLS]' + name + '[ARGS]' }}",
    ]) {
      expect(callFormatOf(source)).toBeUndefined();
    }
  });
});
