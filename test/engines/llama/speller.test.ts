import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lineGrammar } from "../../../src/engines/line-grammar.ts";
import { GrammarAutomaton } from "../../../src/engines/llama/grammar-automaton.ts";
import { type NextTokens, Speller } from "../../../src/engines/llama/speller.ts";
import type { Grammar, GrammarNode } from "../../../src/foundation/grammar.ts";
import type { SlottedLine } from "../../../src/foundation/inference.ts";
import { candidateSpans } from "../../../src/foundation/spans.ts";
import { endToken, textOf, tinyVocabulary, tokenizeGreedily } from "./tiny-vocabulary.ts";

const vocabulary = tinyVocabulary();

const spellerOf = (grammar: Grammar, ends: readonly number[]) =>
  new Speller(
    new GrammarAutomaton(grammar),
    vocabulary,
    (text) => tokenizeGreedily(vocabulary, text),
    ends,
  );

const speller = (line: SlottedLine, prefix = "") =>
  spellerOf(lineGrammar(line, prefix), vocabulary.lineEnds());

/** The tokens that may be chosen. */
function allowed(next: NextTokens): number[] {
  if (next.kind !== "choice") return [];
  const { tokenBiasKeys = [], tokenBiasValues = [] } = next.settings;
  const isListed = tokenBiasValues[0]! > 0;
  if (isListed) return [...tokenBiasKeys];
  const forbidden = new Set(tokenBiasKeys);
  return Array.from({ length: vocabulary.size }, (_, at) => at).filter((at) => !forbidden.has(at));
}

/** Writes a line; `choose` gives the index of the allowed token to take. */
function write(line: SlottedLine, choose: (count: number) => number, prefix = ""): string {
  const writer = speller(line, prefix);
  const written: number[] = [];
  for (;;) {
    const next = writer.next();
    if (next.kind === "end") return textOf(vocabulary, written);
    const choices = allowed(next);
    const tokens = next.kind === "forced" ? next.tokens : [choices[choose(choices.length)]!];
    for (const token of tokens) {
      if (!writer.accept(token)) return textOf(vocabulary, written);
      written.push(token);
    }
  }
}

const slot = (name: string, source: string, maxWords = 3) => ({
  name,
  source,
  orElse: "none",
  maxWords,
});
const line = (source: string): SlottedLine => ({
  line: "temperature={t}, duration={d}",
  slots: [slot("t", source), slot("d", source)],
});

describe("Speller of a line", () => {
  it("writes the line's own text without asking", () => {
    const next = speller(line("Bake 10½ minutes")).next();
    expect(next.kind === "forced" && textOf(vocabulary, next.tokens)).toBe("temperature=");
  });

  it("writes a line that can only be one text without asking at all", () => {
    const never = () => expect.unreachable("the model was asked");
    expect(write(line(""), never)).toBe("temperature=none, duration=none");
  });

  it("asks no more once only one text is left", () => {
    let asked = 0;
    const single: SlottedLine = { line: "{d}", slots: [slot("d", "minutes", 1)] };
    const last = (count: number) => {
      asked++;
      return count - 1;
    };
    expect(["none", "minutes"]).toContain(write(single, last));
    expect(asked).toBe(1);
  });

  it("begins with the space that the prompt wants", () => {
    expect(write(line("x"), () => 0, " ")).toMatch(/^ temperature=/);
  });

  it("only ever writes copied spans, whatever is chosen", () => {
    const words = fc.array(
      fc.constantFrom("Bake", "10½", "min.", "(190", "C)", "é", "none", "🍞"),
      {
        maxLength: 6,
      },
    );
    fc.assert(
      fc.property(words, fc.infiniteStream(fc.nat()), (source, choices) => {
        const asked = line(source.join(" "));
        const text = write(asked, (count) => choices.next().value! % count);
        const match = /^temperature=(.*), duration=(.*)$/u.exec(text);
        const spans = ["none", ...candidateSpans(asked.slots[0]!)];
        expect(spans).toContain(match?.[1]);
        expect(spans).toContain(match?.[2]);
      }),
    );
  });

  it("can write every span", () => {
    const source = "Bake 5 to 10 minutes";
    const single: SlottedLine = { line: "{d}", slots: [slot("d", source, 4)] };
    for (const wanted of ["none", ...candidateSpans(single.slots[0]!)]) {
      const writer = speller(single);
      for (const byte of Buffer.from(wanted)) {
        const token = vocabulary.size - 256 + byte;
        const next = writer.next();
        if (next.kind === "choice") expect(allowed(next)).toContain(token);
        expect(writer.accept(token)).toBe(true);
      }
      const next = writer.next();
      expect(next.kind === "end" || allowed(next).includes(endToken)).toBe(true);
    }
  });

  it("lets a last slot go on or end", () => {
    const writer = speller({ line: "{d}", slots: [slot("d", "5 minutes")] });
    const first = writer.next();
    expect(first.kind).toBe("choice");
    const five = tokenizeGreedily(vocabulary, "5")[0]!;
    writer.accept(five);
    const choices = allowed(writer.next());
    expect(choices).toContain(endToken);
    expect(choices).toContain(tokenizeGreedily(vocabulary, "\n")[0]);
    expect(choices).toContain(tokenizeGreedily(vocabulary, " minutes")[0]);
    expect(writer.accept(endToken)).toBe(false);
  });

  it("obeys the pattern of a slot", () => {
    const withPattern = { ...slot("d", "Bake 5 minutes at 200"), pattern: "\\d+ minutes" };
    const texts = new Set<string>();
    for (let seed = 0; seed < 30; seed++) {
      texts.add(write({ line: "{d}", slots: [withPattern] }, (count) => seed % count));
    }
    expect([...texts].sort()).toEqual(["5 minutes", "none"]);
  });

  it("writes a name in braces that is no slot as it stands", () => {
    expect(write({ line: "{x}={d}", slots: [slot("d", "")] }, () => 0)).toBe("{x}=none");
  });
});

describe("Speller of a structure", () => {
  const text = (value: string): GrammarNode => ({ kind: "text", text: value });
  const letters: GrammarNode = {
    kind: "characters",
    ranges: [
      [0x20, 0x21],
      [0x23, 0x10ffff],
    ],
  };
  const string: GrammarNode = {
    kind: "sequence",
    items: [text('"'), { kind: "repeat", item: letters, min: 0 }, text('"')],
  };
  const root: GrammarNode = { kind: "sequence", items: [text('{"a": '), string, text("}")] };
  const structure = () => spellerOf({ root, rules: {} }, [endToken]);
  const token = (value: string) => tokenizeGreedily(vocabulary, value)[0]!;
  const begun = () => {
    const writer = structure();
    const next = writer.next();
    for (const it of next.kind === "forced" ? next.tokens : []) writer.accept(it);
    return writer;
  };

  it("leaves what has too many continuations open, and judges the choice", () => {
    const writer = begun();
    expect(writer.next()).toEqual({ kind: "open" });
    expect(writer.fit(token("5"), 100)).toBe("fits");
    expect(writer.fit(endToken, 100)).toBe("refused");
    writer.accept(token("5"));
    writer.accept(token('"'));
    expect(writer.fit(token("5"), 100)).toBe("refused");
    const next = writer.next();
    expect(next.kind === "forced" && textOf(vocabulary, next.tokens)).toBe("}");
  });

  it("lists what may come when asked, the few that may not where they are fewer", () => {
    const writer = begun();
    const choices = allowed({ kind: "choice", settings: writer.settings() });
    expect(choices).toContain(token("minutes"));
    expect(choices).toContain(token('"'));
    expect(choices).not.toContain(endToken);
    for (const choice of choices) expect(structureTakes(choice)).toBe(true);
  });

  function structureTakes(choice: number): boolean {
    return begun().accept(choice);
  }

  it("keeps room for the end", () => {
    const writer = begun();
    expect(writer.fit(token("5"), 20)).toBe("fits");
    expect(writer.fit(token("5"), 3)).toBe("no-room");
    expect(textOf(vocabulary, writer.closing())).toBe('"}');
    expect(writer.fit(token("5"), 1)).toBe("fits");
  });

  it("ends inside a character byte by byte", () => {
    const writer = begun();
    writer.accept(vocabulary.size - 256 + 0xc3);
    const [continuation, ...rest] = writer.closing();
    expect(continuation).toBe(vocabulary.size - 256 + 0x80);
    expect(textOf(vocabulary, rest)).toBe('"}');
  });

  it("is at its end where nothing may follow, and may end where something may", () => {
    const digits: GrammarNode = { kind: "characters", ranges: [[0x30, 0x39]] };
    const writer = spellerOf(
      { root: { kind: "repeat", item: digits, min: 1, max: 2 }, rules: {} },
      [endToken],
    );
    expect(allowed(writer.next())).not.toContain(endToken);
    writer.accept(token("5"));
    expect(allowed(writer.next())).toContain(endToken);
    writer.accept(token("5"));
    expect(writer.next()).toEqual({ kind: "end" });
  });

  it("says when the model has no token for what must come", () => {
    const writer = spellerOf({ root: { kind: "choice", items: [] }, rules: {} }, [endToken]);
    expect(() => writer.next()).toThrow("no token");
  });
});
