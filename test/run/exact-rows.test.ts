import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LongNumbers, rowTexts } from "../../src/run/exact-rows.ts";

const textOf = (raw: string, row: object) => LongNumbers.of(raw)?.textOf(row as never);

describe("LongNumbers", () => {
  it("puts digits back where a value stands that a stage saw rounded", () => {
    const raw = '{"id":9007199254740993,"in":[{"a":12345678901234567891}],"x":1.5}';
    const seen = JSON.parse(raw);
    expect(textOf(raw, seen)).toBe(raw);
    expect(textOf(raw, { key: seen.id, half: seen.id / 2, text: String(seen.id) })).toBe(
      '{"key":9007199254740993,"half":4503599627370496,"text":"9007199254740992"}',
    );
  });

  it("leaves a double alone that could be either of two numbers, unless its name tells", () => {
    const raw = '{"a":9007199254740993,"b":9007199254740992}';
    const { a, b } = JSON.parse(raw);
    expect(textOf(raw, { a, b })).toBe(raw);
    expect(textOf(raw, { c: a })).toBe('{"c":9007199254740992}');
  });

  it("are none in rows without them", () => {
    for (const raw of ['{"id":1}', '{"text":"9007199254740993"}', '{"id":9007199254740992}']) {
      expect(LongNumbers.of(raw)).toBeUndefined();
    }
  });

  it("keep every row that passes through as it is", () => {
    const digits = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n });
    fc.assert(
      fc.property(fc.dictionary(fc.string(), digits), (row) => {
        const members = Object.entries(row).map(
          ([key, value]) => `${JSON.stringify(key)}:${value}`,
        );
        const raw = `{${members.join(",")}}`;
        const text = textOf(raw, JSON.parse(raw)) ?? JSON.stringify(JSON.parse(raw));
        expect(text).toBe(raw);
      }),
    );
  });
});

describe("rowTexts", () => {
  it("parts a list into rows with every digit", () => {
    expect(rowTexts('[{"id":9007199254740993},{"a":[1.5,null]}]')).toEqual([
      '{"id":9007199254740993}',
      '{"a":[1.5,null]}',
    ]);
    expect(rowTexts('[{"id":1}]')).toEqual(['{"id":1}']);
  });
});
