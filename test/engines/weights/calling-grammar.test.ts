import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import { CallReader, callFormatOf } from "../../../src/engines/weights/call-formats.ts";
import {
  type CallingGrammarOptions,
  callingGrammar,
} from "../../../src/engines/weights/calling-grammar.ts";
import type { AskedCalls } from "../../../src/engines/weights/tool-calling.ts";
import { type Grammar, toGbnf } from "../../../src/foundation/grammar.ts";

const literal = (value: string): Grammar => ({ root: { kind: "text", text: value }, rules: {} });
const argumentGrammars = { weather: literal('{"city": "Bern"}'), time: literal("{}") };

/** Signs of templates, one call, and two if an answer may have several. */
const families = {
  hermes: {
    sign: "<tool_call>",
    one: '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>',
    two:
      '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>\n' +
      '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>',
  },
  mistral: {
    sign: "[TOOL_CALLS] [",
    one: '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Bern"}}]',
    two:
      '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Bern"}}, ' +
      '{"name": "time", "arguments": {}}]',
  },
  nemotron: {
    sign: "<TOOLCALL>",
    one: '<TOOLCALL>[{"name": "weather", "arguments": {"city": "Bern"}}]</TOOLCALL>',
    two:
      '<TOOLCALL>[{"name": "weather", "arguments": {"city": "Bern"}}, ' +
      '{"name": "time", "arguments": {}}]</TOOLCALL>',
  },
  phi: {
    sign: "<|tool_call|>…<|/tool_call|>",
    one: '<|tool_call|>{"name": "time", "arguments": {}}<|/tool_call|>',
    two: '<|tool_call|>{"name": "time", "arguments": {}}<|/tool_call|>'.repeat(2),
  },
  llama: {
    sign: '{"name": name, "parameters": parameters}',
    one: '{"name": "weather", "parameters": {"city": "Bern"}}',
    two: undefined,
  },
};

type Family = keyof typeof families;

const asked = (family: Family, rest: Partial<AskedCalls> = {}): AskedCalls => ({
  ...{ format: callFormatOf(families[family].sign)!, argumentGrammars },
  ...{ isForced: false, isParallel: true, ...rest },
});

/** Whether an answer may be, or begin with, a text. */
function reader(calls: AskedCalls, options?: CallingGrammarOptions) {
  const automaton = new GrammarAutomaton(callingGrammar(calls, options));
  const after = (value: string) => automaton.stepAll(automaton.start, Buffer.from(value));
  return {
    takes: (value: string) => after(value)?.isEnd ?? false,
    goesOn: (value: string) => after(value) !== undefined,
  };
}

describe.each(Object.keys(families) as Family[])("an answer in the form of %s", (family) => {
  const { one, two } = families[family];
  const isBare = family === "llama";
  const opening = isBare ? "<|python_tag|>" : callFormatOf(families[family].sign)!.open;

  it("is a call where it must be one", () => {
    const { takes, goesOn } = reader(asked(family, { isForced: true }));
    expect(takes(one)).toBe(true);
    if (two) expect(takes(two)).toBe(true);
    for (const other of ["", "Hello", `Hello ${one}`, `${one} Hello`]) {
      expect(takes(other), other).toBe(false);
    }
    expect(goesOn(one.replace(/weather|time/, "rain"))).toBe(false);
  });

  it("has one call where several may not be", () => {
    for (const isForced of [true, false]) {
      const { takes, goesOn } = reader(asked(family, { isForced, isParallel: false }));
      expect(takes(one)).toBe(true);
      if (two) expect(goesOn(two)).toBe(false);
    }
  });

  it("is any text, up to the text that opens a call", () => {
    const { takes, goesOn } = reader(asked(family));
    const bits = [...opening, "<", "[", "{", '"name"', "ü🍲", "\n", " ", "x", opening.slice(0, -1)];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...bits)), (parts) => {
        const said = parts.join("");
        const isCall = said.includes(opening) || (isBare && /^\s*\{\s*"name"\s*:/.test(said));
        if (!isCall) expect(takes(said)).toBe(true);
      }),
    );
    const tagged = isBare ? opening + one : one;
    for (const before of ["Hi! <<", "I look it up.\n", opening.slice(0, 3)]) {
      expect(takes(before + tagged)).toBe(true);
      expect(takes(before + opening)).toBe(false);
      expect(goesOn(`${before}${opening}Hello`)).toBe(false);
    }
    expect(takes(one)).toBe(true);
    expect(goesOn(`${one} and so on`)).toBe(false);
  });

  it("is text and calls to the reader of answers", () => {
    const { format } = asked(family);
    for (const [written, count] of [[one, 1] as const, ...(two ? [[two, 2] as const] : [])]) {
      const calls = new CallReader(format, Object.keys(argumentGrammars));
      const told = calls.push(isBare ? written : `Hi ${written}`);
      expect(told).toBe(isBare ? "" : "Hi");
      expect(calls.end()).toMatchObject({ text: "", calls: { length: count } });
    }
  });

  it("has the form that was asked for, or is a call", () => {
    const { takes } = reader(asked(family), { structure: literal('{"rain": true}') });
    expect(takes('{"rain": true}')).toBe(true);
    expect(takes(one)).toBe(true);
    expect(takes("Hello")).toBe(false);
  });
});

describe("an answer that may call tools", () => {
  it("ends at a stop text, but not within a call", () => {
    const { takes, goesOn } = reader(asked("hermes"), { stop: ["weather", "END", ""] });
    expect(takes("the END")).toBe(true);
    expect(goesOn("the END!")).toBe(false);
    expect(goesOn("the weather ")).toBe(false);
    expect(takes(`the EN ${families.hermes.one}`)).toBe(true);
  });

  it("does not end before the limit of tokens where it must go on", () => {
    const { takes, goesOn } = reader(asked("hermes"), { ignoresEnds: true });
    expect(goesOn("Hello <tool")).toBe(true);
    expect(takes("Hello <tool")).toBe(false);
    expect(takes(families.hermes.one)).toBe(true);
  });

  it("is no bare call of an unknown tool, whatever its white space", () => {
    const { takes, goesOn } = reader(asked("llama"));
    expect(goesOn('{"name": "rain')).toBe(false);
    expect(goesOn('\n { "name" :')).toBe(false);
    expect(takes('{"rain": true}')).toBe(true);
    expect(takes('{"name" is a word')).toBe(true);
    expect(takes('So: {"name": "rain"}')).toBe(true);
  });

  it("has a small grammar, also with long stop texts", () => {
    const stop = ["\n\nUser:", "###".repeat(10)];
    expect(toGbnf(callingGrammar(asked("hermes"), { stop })).length).toBeLessThan(16_000);
  });
});
