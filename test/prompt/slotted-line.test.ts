import { describe, expect, it } from "vitest";
import type { Slot } from "../../src/foundation/inference.ts";
import { candidateSpans, parseSlottedLine } from "../../src/prompt/slotted-line.ts";

const source =
  "Bake at 375 degrees F (190 degrees C), covered, over medium heat, about 12 minutes.";
const temperature: Slot = { name: "temperature", source, orElse: "none", maxWords: 6 };
const duration: Slot = { ...temperature, name: "duration", pattern: ".*\\d+ (min|hour).*" };
const asked = {
  line: "temperature={temperature}, duration={duration}",
  slots: [temperature, duration],
};
const parse = (text: string) => parseSlottedLine(asked, text);
const values = (temperatureText: string | null, durationText: string | null) => ({
  ok: true,
  values: { temperature: temperatureText, duration: durationText },
});

describe("parseSlottedLine accepts", () => {
  it.each([
    ["temperature=medium heat, duration=12 minutes", values("medium heat", "12 minutes")],
    ["temperature=none, duration=none", values(null, null)],
    ["Temperature = None, Duration = NONE.", values(null, null)],
    ["temperature=MEDIUM HEAT,, duration=12 minutes.", values("medium heat", "12 minutes")],
    [
      "temperature=375 degrees f (190 degrees c), duration=none",
      values("375 degrees F (190 degrees C)", null),
    ],
    // The comma inside the copied words does not end the slot.
    [
      "temperature=(190 degrees C), covered, over, duration=none",
      values("(190 degrees C), covered, over", null),
    ],
    ["Sure!\n`temperature=none, duration=about 12 minutes`\nBye", values(null, "about 12 minutes")],
    ["temperature=none,duration=12  minutes", values(null, "12 minutes")],
  ])("%j", (text, parsed) => {
    expect(parse(text)).toEqual(parsed);
  });

  it("every span that an engine may choose", () => {
    for (const span of candidateSpans(temperature)) {
      expect(parse(`temperature=${span}, duration=none`)).toEqual(values(span, null));
    }
    expect(candidateSpans(duration)).toContain("about 12 minutes");
  });

  it("lines with other signs, and slots at both ends", () => {
    const line = { line: "{temperature} for {duration}", slots: [temperature, duration] };
    expect(parseSlottedLine(line, "Medium heat for about 12 minutes")).toEqual(
      values("medium heat", "about 12 minutes"),
    );
    const regexSigns = { line: "[t]: {temperature} (?)", slots: [temperature] };
    expect(parseSlottedLine(regexSigns, "[T]: medium heat (?)")).toMatchObject({ ok: true });
  });
});

describe("fixed text between two slots", () => {
  it("may stand in the copied words as well, also over its own end", () => {
    const [first, last] = ["b a", "c"].map((source, at) => ({
      ...{ name: `slot${at}`, source, orElse: "none", maxWords: 3 },
    }));
    const line = { line: "{slot0} a a {slot1}", slots: [first!, last!] };
    const parsed = { ok: true, values: { slot0: "b a", slot1: "c" } };
    expect(parseSlottedLine(line, "b a a a c")).toEqual(parsed);
  });
});

describe("parseSlottedLine says what is wrong", () => {
  it.each([
    ["It is hot.", 'of the form "temperature={temperature}'],
    ["", "it is "],
    ["temperature=very hot, duration=none", 'temperature="very hot" is not copied word by word'],
    ["temperature=none, duration=", "duration is empty"],
    ["temperature=none, duration=medium heat", 'duration="medium heat" does not have the form'],
    ["temperature=375 degrees F (190 degrees C), covered, duration=none", "has 7 words, at most 6"],
    ["temperature=heat over, duration=none", "not copied"],
  ])("%j", (text, problem) => {
    const parsed = parse(text);
    expect(parsed).toMatchObject({ ok: false, problem: expect.stringContaining(problem) });
  });

  it("names what stands for nothing, and clips long answers", () => {
    expect(parse("temperature=x, duration=none")).toMatchObject({
      problem: expect.stringContaining('write "none"'),
    });
    const long = parse("word ".repeat(10_000)) as { problem: string };
    expect(long.problem.length).toBeLessThan(500);
  });

  it.each(["x, ", "x,", ", ", "heat, "])("of a text that is all %j", (part) => {
    const slots = ["a", "b", "c", "d", "e"].map((name) => ({ ...temperature, name }));
    const line = { line: "{a}, {b}, {c}, {d}, {e}", slots };
    for (const parts of [100, 20_000]) {
      expect(parseSlottedLine(line, part.repeat(parts))).toMatchObject({ ok: false });
    }
  });

  it("of a text that is all stars, commas or spaces, beside a long source", () => {
    const source = "word ".repeat(1000) + "x".repeat(100_000);
    const slots = ["a", "b", "c"].map((name) => ({ ...temperature, name, source }));
    for (const line of ["{a}, {b}, {c}", "a={a} b={b} c={c}"]) {
      for (const part of ["*", ",", " =", "a= ,", "*`'"]) {
        const text = part.repeat(Math.floor(100_000 / part.length));
        expect(parseSlottedLine({ line, slots }, text)).toMatchObject({ ok: false });
        expect(parseSlottedLine({ line, slots }, `${text}a`)).toMatchObject({ ok: false });
      }
    }
  });

  it("and reads a right line in quotes of many marks", () => {
    const quotes = "*".repeat(20);
    const line = `${quotes}temperature=medium heat, duration=none${quotes}`;
    expect(parse(line)).toMatchObject({ ok: true });
  });
});
