import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineSpeller } from "../../../src/engines/llama/line-speller.ts";
import type { SlottedLine } from "../../../src/foundation/inference.ts";
import { candidateSpans } from "../../../src/foundation/spans.ts";
import { endToken, textOf, tinyVocabulary, tokenizeGreedily } from "./tiny-vocabulary.ts";

const vocabulary = tinyVocabulary();

function speller(line: SlottedLine, prefix = ""): LineSpeller {
  return new LineSpeller(line, prefix, vocabulary, (text) => tokenizeGreedily(vocabulary, text));
}

/** Writes a line; `choose` gives the index of the allowed token to take. */
function write(line: SlottedLine, choose: (count: number) => number, prefix = ""): string {
  const writer = speller(line, prefix);
  const written: number[] = [];
  for (;;) {
    const next = writer.next();
    if (next.kind === "end") return textOf(vocabulary, written);
    const tokens =
      next.kind === "forced" ? next.tokens : [next.tokens[choose(next.tokens.length)]!];
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

describe("LineSpeller", () => {
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
        if (next.kind === "choice") expect([...next.tokens]).toContain(token);
        expect(writer.accept(token)).toBe(true);
      }
      const next = writer.next();
      expect(
        next.kind === "end" || (next.kind === "choice" && next.tokens.includes(endToken)),
      ).toBe(true);
    }
  });

  it("lets a last slot go on or end", () => {
    const writer = speller({ line: "{d}", slots: [slot("d", "5 minutes")] });
    const first = writer.next();
    expect(first.kind).toBe("choice");
    const five = tokenizeGreedily(vocabulary, "5")[0]!;
    writer.accept(five);
    const next = writer.next();
    const allowed = next.kind === "choice" ? [...next.tokens] : [];
    expect(allowed).toContain(endToken);
    expect(allowed).toContain(tokenizeGreedily(vocabulary, "\n")[0]);
    expect(allowed).toContain(tokenizeGreedily(vocabulary, " minutes")[0]);
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
