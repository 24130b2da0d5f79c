import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CallSpeller,
  type CallSpellerOptions,
  formatBytes,
} from "../../../src/engines/llama/call-speller.ts";
import { Decoding } from "../../../src/engines/llama/decoding.ts";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import { Speller } from "../../../src/engines/llama/speller.ts";
import {
  CallReader,
  callFormatOf,
  callsGrammar,
} from "../../../src/engines/weights/call-formats.ts";
import type { Grammar, GrammarNode } from "../../../src/foundation/grammar.ts";
import {
  type Answer,
  greedyParameters,
  type SamplingParameters,
} from "../../../src/foundation/inference.ts";
import { seededRandom } from "../../../src/foundation/random.ts";
import { endToken, tinyVocabulary, tokenizeGreedily } from "./tiny-vocabulary.ts";

const text = (value: string): GrammarNode => ({ kind: "text", text: value });
const sequence = (...items: GrammarNode[]): GrammarNode => ({ kind: "sequence", items });
const digits: GrammarNode = { kind: "characters", ranges: [[0x31, 0x39]] };
const letters: GrammarNode = {
  kind: "characters",
  ranges: [
    [0x20, 0x21],
    [0x23, 0x5b],
    [0x5d, 0x10ffff],
  ],
};
/** Tools whose grammars have rules of the same name. */
const tools: Record<string, Grammar> = {
  oven: {
    root: sequence(text('{"minutes": '), { kind: "rule", name: "value" }, text("}")),
    rules: { value: { kind: "repeat", item: digits, min: 1, max: 3 } },
  },
  note: {
    root: sequence(text('{"text": "'), { kind: "rule", name: "value" }, text('"}')),
    rules: { value: { kind: "repeat", item: letters, min: 0 } },
  },
};
const isOfTool = ({ name, arguments: given }: { name: string; arguments: string }) => {
  const value = JSON.parse(given) as Record<string, unknown>;
  const [member] = Object.keys(value);
  return name === "oven" ? Number.isFinite(value.minutes) : member === "text";
};

const sources = {
  hermes: "<tool_call>\\n{}\\n</tool_call>",
  mistral: "[TOOL_CALLS] [",
  llama: '{"name": function name, "parameters": object}',
};
type Family = keyof typeof sources;

/** The tokens of a text; whole texts of control tokens are one each. */
function tokenizeFormat(vocabulary: ReturnType<typeof tinyVocabulary>, control: string[]) {
  return (value: string): number[] =>
    value
      .split(new RegExp(`(${control.map((each) => each.replace(/[[\]|]/g, "\\$&")).join("|")})`))
      .flatMap((part) => {
        const at = control.indexOf(part);
        const token = vocabulary.size - 256 - control.length + at;
        return at < 0 ? tokenizeGreedily(vocabulary, part) : [token];
      });
}

interface Asked
  extends Partial<Pick<CallSpellerOptions, "isForced" | "isParallel" | "ignoresEnds">>,
    Partial<Pick<SamplingParameters, "repetitionPenalty" | "stop">> {
  /** Further tokens. */
  extra?: string[];
  /** Whether the texts before and after calls are control tokens. */
  areControl?: boolean;
  maxNewTokens?: number;
  answer?: Grammar;
}

function begun(family: Family, asked: Asked) {
  const { isForced = false, isParallel = true, areControl = false, maxNewTokens = 400 } = asked;
  const { extra = [], ignoresEnds = false, answer, repetitionPenalty = 1, stop = [] } = asked;
  const format = callFormatOf(sources[family])!;
  const control = areControl
    ? ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>"]
    : ["<never>"];
  const vocabulary = tinyVocabulary(control, extra);
  const tokenize = tokenizeFormat(vocabulary, control);
  const automaton = new GrammarAutomaton(callsGrammar(format, tools, isParallel));
  const spellerOf = (of: GrammarAutomaton, ends: number[]) =>
    new Speller(of, vocabulary, (value) => tokenizeGreedily(vocabulary, value), ends);
  const bytes = formatBytes(format, vocabulary, tokenize);
  const speller = new CallSpeller({
    ...{ format, vocabulary, formatBytes: bytes, tokenizeFormat: tokenize, isForced, isParallel },
    callsSpeller: () => spellerOf(automaton, []),
    ...(answer && { answer: spellerOf(new GrammarAutomaton(answer), [endToken]) }),
    ignoresEnds,
  });
  const decoding = new Decoding({
    prompt: [5],
    parameters: { ...greedyParameters, maxNewTokens, seed: 0, repetitionPenalty, stop },
    vocabulary,
    speller,
    calls: {
      ...{ reader: new CallReader(format, Object.keys(tools)), formatBytes: bytes },
      idOf: (place) => `id${place}`,
    },
  });
  decoding.begin();
  return { decoding, vocabulary, tokenize };
}

/** Takes tokens as a model would that prefers these, in their order, as long as they may come. */
function decode(
  { decoding, vocabulary }: ReturnType<typeof begun>,
  wanted: Iterable<number>,
): Answer & { told: string } {
  let told = decoding.takeDelta()?.text ?? "";
  for (const token of wanted) {
    if (decoding.isDone) break;
    const choose = () => {
      const { tokenBiasKeys = [], tokenBiasValues = [] } = decoding.config();
      const isListed = (tokenBiasValues[0] ?? 0) > 0;
      const listed = new Set(tokenBiasKeys);
      for (let next = token; ; next = (next + 1) % vocabulary.size) {
        if (listed.has(next) === isListed) return next;
      }
    };
    const chosen = choose();
    decoding.take(decoding.refuses(chosen) ? choose() : chosen);
    told += decoding.takeDelta()?.text ?? "";
  }
  if (!decoding.isDone) throw new Error("the tokens did not suffice");
  return { ...decoding.answer(), told };
}

/** Tokens without end, drawn from a seed. */
function* noise(seed: number): Generator<number> {
  for (const random = seededRandom(seed); ; ) yield Math.floor(random.next() * 280);
}
function* chained(tokens: readonly number[], seed: number): Generator<number> {
  yield* tokens;
  yield* noise(seed);
}

const seeds = fc.integer({ min: 0 });
const variants = [
  ["hermes", false],
  ["hermes", true],
  ["mistral", false],
  ["mistral", true],
  ["llama", false],
] as const;

describe.each(variants)("an answer with calls of %s, control tokens: %s", (family, areControl) => {
  it("is a call where it must be one, whatever is sampled", () => {
    fc.assert(
      fc.property(seeds, fc.boolean(), (seed, isParallel) => {
        const asked = begun(family, { isForced: true, isParallel, areControl });
        const { text: said, told, toolCalls = [] } = decode(asked, noise(seed));
        expect([said, told]).toEqual(["", ""]);
        expect(toolCalls.length).toBeGreaterThan(0);
        if (!isParallel || family === "llama") expect(toolCalls).toHaveLength(1);
        expect(toolCalls.map(({ id }) => id)).toEqual(toolCalls.map((_, at) => `id${at}`));
        for (const { function: called } of toolCalls) expect(isOfTool(called)).toBe(true);
      }),
      { numRuns: 30 },
    );
  });

  it("is whole where tokens run out, or text where they cannot suffice", () => {
    fc.assert(
      fc.property(seeds, fc.integer({ min: 1, max: 120 }), (seed, maxNewTokens) => {
        const asked = begun(family, { isForced: true, areControl, maxNewTokens });
        const { text: said, tokens, toolCalls = [] } = decode(asked, noise(seed));
        expect(tokens).toBeLessThanOrEqual(maxNewTokens);
        expect(toolCalls.length > 0).toBe(said === "");
        for (const { function: called } of toolCalls) expect(isOfTool(called)).toBe(true);
      }),
      { numRuns: 30 },
    );
  });

  it("tells the text before a call, and holds to the grammar once the call has begun", () => {
    const open = { hermes: "<tool_call>", mistral: "[TOOL_CALLS]", llama: '{"name": "oven"' }[
      family
    ];
    const before = family === "llama" ? "" : "5 minutes, then";
    fc.assert(
      fc.property(seeds, (seed) => {
        const asked = begun(family, { areControl });
        const said = asked.tokenize(before + open);
        const { text: answer, told, toolCalls = [] } = decode(asked, chained(said, seed));
        expect([answer, told]).toEqual([before, before]);
        expect(toolCalls.length).toBeGreaterThan(0);
        for (const { function: called } of toolCalls) expect(isOfTool(called)).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  it("is free text as long as no call begins", () => {
    const asked = begun(family, { areControl });
    const said = 'a <tool_cal [TOOL {"name": "of a man"} 5 minutes';
    const tokens = [...asked.tokenize(said), endToken];
    const { text: answer, toolCalls, finishReason } = decode(asked, tokens);
    expect([answer, toolCalls, finishReason]).toEqual([said, undefined, "stop"]);
  });

  it("is a call or has its form, whichever the model begins", () => {
    const answer: Grammar = {
      root: sequence(text('{"sum": '), { kind: "repeat", item: digits, min: 1 }, text("}")),
      rules: {},
    };
    const asked = () => begun(family, { areControl, answer });
    const plain = asked();
    const { text: sum, told, toolCalls: none } = decode(plain, chained(plain.tokenize("{"), 2));
    expect([sum, told, none]).toEqual([expect.stringMatching(/^{"sum": [1-9]+}$/), sum, undefined]);
    if (family === "llama") return;
    const calling = asked();
    const open = calling.tokenize(family === "hermes" ? "<tool_call>" : "[TOOL_CALLS]");
    const { text: said, toolCalls } = decode(calling, chained(open.slice(0, 1), 3));
    expect(said).toBe("");
    expect(toolCalls!.every(({ function: called }) => isOfTool(called))).toBe(true);
  });
});

describe("CallSpeller", () => {
  it("leaves out a further call that is cut off", () => {
    const asked = begun("hermes", { isForced: true, maxNewTokens: 111 });
    const { text: said, toolCalls, finishReason } = decode(asked, noise(2_146_435_043));
    expect([said, toolCalls?.length, finishReason]).toEqual(["", 1, "length"]);
  });

  it("does not let one token lead from the opening text into what is no call", () => {
    // `>` is a token of its own here, so the last one of these holds more than the opening text.
    const { decoding, tokenize, vocabulary } = begun("hermes", { extra: ['>"x'] });
    for (const token of tokenize("<tool_call")) decoding.take(token);
    const [joint] = tokenizeGreedily(vocabulary, '>"x');
    expect(vocabulary.text(joint!)).toBe('>"x');
    expect(decoding.refuses(joint!)).toBe(true);
    const [only, ...others] = decoding.config().tokenBiasKeys!;
    expect([vocabulary.text(only!), others]).toEqual([">", []]);
  });

  it("leaves penalties to free text", () => {
    const { decoding, tokenize } = begun("hermes", { repetitionPenalty: 1.2 });
    expect(decoding.config().repeatPenalty).toBe(1.2);
    for (const token of tokenize("<tool_call>")) decoding.take(token);
    expect(decoding.config().repeatPenalty).toBeUndefined();
  });

  it("passes over the model's end where ends are to be ignored", () => {
    const { decoding } = begun("hermes", { ignoresEnds: true });
    expect([...decoding.config().tokenBiasKeys!]).toEqual([endToken]);
  });

  it("ends at a stop text before a call, and not at one within it", () => {
    const said = 'a stop <tool_call>\n{"name": "note", "arguments": {"text": "stop';
    const cut = begun("hermes", { stop: ["stop"] });
    expect(decode(cut, chained(cut.tokenize(said), 1))).toMatchObject({
      ...{ text: "a ", told: "a ", finishReason: "stop" },
    });
    const whole = begun("hermes", { stop: ["stop"] });
    const { toolCalls } = decode(whole, chained(whole.tokenize(said.slice(7)), 1));
    expect(toolCalls!.length).toBeGreaterThan(0);
  });
});
