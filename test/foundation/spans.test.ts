import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Slot } from "../../src/foundation/inference.ts";
import { limits } from "../../src/foundation/limits.ts";
import {
  candidateSpans,
  findSpan,
  locateSpan,
  sourceWords,
  trimSpan,
  wholePattern,
} from "../../src/foundation/spans.ts";

const slotOf = (source: string, more: Partial<Slot> = {}): Slot => ({
  name: "slot",
  source,
  orElse: "none",
  maxWords: 6,
  ...more,
});

describe("trimSpan", () => {
  it.each([
    ["medium heat,", "medium heat"],
    ["(190 degrees C).", "190 degrees C"],
    ["375 degrees F (190 degrees C).", "375 degrees F (190 degrees C)"],
    ["degrees C).", "degrees C"],
    ["(350 degrees", "350 degrees"],
    ["(a) (b)", "(a) (b)"],
    ["“about  5\nminutes,”", "about 5 minutes"],
    ["20 minutes…", "20 minutes"],
    [".5 cups", ".5 cups"],
    ["-18 C", "-18 C"],
    ["- 5", "5"],
    ['9"', '9"'],
    ["...", ""],
  ])("%j becomes %j", (span, trimmed) => {
    expect(trimSpan(span)).toBe(trimmed);
  });

  it.each(["(", ")", "([{", ")]}", "(]", '"', "9\"'", "-.", "( "])(
    "of many %j ends at once",
    (marks) => {
      const many = marks.repeat(100_000);
      expect(trimSpan(`${many}x${many}`).includes("x")).toBe(true);
      expect(trimSpan(`${"(".repeat(100_000)}x${")".repeat(100_000)}`)).toBe("x");
    },
  );

  it("changes nothing a second time", () => {
    const marks = fc.constantFrom("(", ")", "[", "]", ".", ",", "-", '"', "’", " ", "a", "5", "—");
    fc.assert(
      fc.property(fc.array(marks, { maxLength: 12 }), (parts) => {
        const once = trimSpan(parts.join(""));
        expect(trimSpan(once)).toBe(once);
      }),
    );
  });
});

describe("candidateSpans", () => {
  const source = "Preheat an oven to 375 degrees F (190 degrees C). Grease 2 baking sheets.";

  it("holds the whole temperature, brackets and all", () => {
    expect(candidateSpans(slotOf(source))).toContain("375 degrees F (190 degrees C)");
  });

  it("keeps to maxWords and to the pattern", () => {
    const slot = slotOf("Bake about 12 to 15 min. or 1 hour.", {
      maxWords: 4,
      pattern: "\\d+( to \\d+)? (min|hour)",
    });
    expect(candidateSpans(slot)).toEqual(["12 to 15 min", "15 min", "1 hour"]);
  });

  it("cuts no pair of brackets and leaves orElse out", () => {
    const spans = candidateSpans(slotOf("Use none (or some) here", { maxWords: 3 }));
    expect(spans).not.toContain("none");
    expect(spans).not.toContain("Use none (or");
    expect(spans).toContain("none (or some)");
  });

  it("parts words at an em dash", () => {
    const spans = candidateSpans(slotOf("10 minutes—or more", { maxWords: 2 }));
    expect(spans).toContain("10 minutes");
  });

  it("gives texts that findSpan finds again as they are", () => {
    const word = fc.constantFrom("heat", "Heat", "(190", "C).", "5", '9"', "none", "-", "a,b", "—");
    fc.assert(
      fc.property(
        fc.array(word, { maxLength: 14 }),
        fc.integer({ min: 1, max: 5 }),
        (words, max) => {
          const slot = slotOf(words.join(" "), { maxWords: max });
          for (const span of candidateSpans(slot)) expect(findSpan(slot, span)).toBe(span);
        },
      ),
    );
  });

  it("refuses a source beyond the limit", () => {
    const slot = slotOf("word ".repeat(limits.maxSlotSourceWords + 1));
    expect(() => candidateSpans(slot)).toThrow(expect.objectContaining({ code: "FIELD_TYPE" }));
    expect(sourceWords(slotOf("word ".repeat(3)))).toHaveLength(3);
    const long = slotOf("x".repeat(limits.maxSlotSourceChars + 1));
    expect(() => sourceWords(long)).toThrow("characters");
  });
});

describe("findSpan", () => {
  const slot = slotOf("Cook over “Medium heat,” 20–25 min at 350 degrees F (175 degrees C).");

  it.each([
    ["Medium heat", "Medium heat"],
    ["medium HEAT,", "Medium heat"],
    ["20-25 min", "20–25 min"],
    ["350 degrees F 175 degrees C", "350 degrees F (175 degrees C)"],
    ["  350   degrees ", "350 degrees"],
  ])("%j is copied as %j", (copied, span) => {
    expect(findSpan(slot, copied)).toBe(span);
  });

  it.each(["high heat", "heat min", "350 degrees C", ""])("%j does not stand there", (copied) => {
    expect(findSpan(slot, copied)).toBeUndefined();
  });

  it("finds what was cut off from marks", () => {
    expect(candidateSpans(slotOf("-a"))).toEqual(["a"]);
    expect(findSpan(slotOf("-a"), "a")).toBe("a");
    expect(findSpan(slotOf("(() a"), "() a")).toBe("() a");
    expect(findSpan(slotOf("-5 or - 5"), "-5")).toBe("-5");
  });

  it("prefers equal letter case", () => {
    expect(findSpan(slotOf("Heat and heat"), "heat")).toBe("heat");
  });
});

describe("locateSpan", () => {
  it("says where the words stand, white space and all, of several places the first", () => {
    const source = "  (Heat  to\n375) and — “heat to 375”.";
    const located = locateSpan(slotOf(source), "Heat to 375")!;
    expect(located.text).toBe("Heat to 375");
    expect(source.slice(located.start, located.end)).toBe("Heat  to\n375");
    const other = locateSpan(slotOf(source), "heat to 375")!;
    expect(source.slice(other.start, other.end)).toBe("heat to 375");
    expect(locateSpan(slotOf("5 or 5"), "5")).toEqual({ text: "5", start: 0, end: 1 });
    expect(locateSpan(slotOf(source), "cool")).toBeUndefined();
  });
});

describe("wholePattern", () => {
  it("matches the whole text and ignores case", () => {
    expect(wholePattern("\\d+ min|overnight").test("Overnight")).toBe(true);
    expect(wholePattern("\\d+ min|overnight").test("about 5 min")).toBe(false);
  });

  it("refuses what is no pattern by itself", () => {
    expect(() => wholePattern("a)(b")).toThrow(SyntaxError);
  });
});
