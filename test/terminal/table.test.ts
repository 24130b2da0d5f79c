import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clip, table, textWidth, wrap } from "../../src/terminal/table.ts";

describe("table", () => {
  it("aligns columns, numbers to the right", () => {
    const columns = [{ title: "task" }, { title: "rows", align: "right" as const }, { title: "x" }];
    expect(
      table(columns, [
        ["a", "5", "end"],
        ["longer", "1000", ""],
      ]),
    ).toEqual(["task    rows  x", "a          5  end", "longer  1000"]);
  });

  it("shows each row in one line, cut where it is too long", () => {
    const lines = table(
      [{ title: "text", maxWidth: 6 }, { title: "b" }],
      [["a\nb\tc d e f", "x"]],
      9,
    );
    expect(lines).toEqual(["text    b", "a b c…  x"]);
    expect(table([{ title: "a long title" }], [], 5)).toEqual(["a lo…"]);
  });

  it("counts wide characters as two", () => {
    expect(textWidth("日本")).toBe(4);
    expect(textWidth("e\u0301")).toBe(1);
    expect(
      table(
        [{ title: "a" }, { title: "b" }],
        [
          ["日本", "1"],
          ["abcd", "2"],
        ],
      ),
    ).toEqual(["a     b", "日本  1", "abcd  2"]);
  });
});

describe("clip", () => {
  it("never exceeds its width", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.nat(30), (text, width) => {
        expect(textWidth(clip(text, width))).toBeLessThanOrEqual(width);
      }),
    );
  });
});

describe("wrap", () => {
  it("keeps every word, in lines that fit unless one word is longer", () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-z]{1,12}$/)), (words) => {
        const lines = wrap(words.join(" "), 12);
        expect(lines.join(" ")).toBe(words.join(" "));
        expect(lines.every((line) => line.length <= 12)).toBe(true);
      }),
    );
  });
});
