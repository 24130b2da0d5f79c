import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  exactText,
  keptText,
  parseExactly,
  parseMessage,
  parseSpecials,
  parseWritten,
  toCodeValue,
  WrittenNumber,
  withoutSpecials,
  writtenRow,
} from "../../src/foundation/exact-json.ts";

describe("parseExactly", () => {
  it("keeps the digits of whole numbers that no double holds", () => {
    const text =
      '{"id":9007199254740993,"list":[-18446744073709551616,1],"x":1e+20,"zero":-0,"y":"1"}';
    const value = {
      id: 9007199254740993n,
      list: [-18446744073709551616n, 1],
      x: 1e20,
      zero: -0,
      y: "1",
    };
    expect(parseExactly(text)).toEqual(value);
    // The shortest text of a double is not the number that it holds.
    expect(parseExactly("[1152921504606847000]")).toEqual([1152921504606847000n]);
    expect(parseExactly("[1152921504606847000]", "text")).toEqual(["1152921504606847000"]);
    expect(parseExactly('{"digits":"9007199254740993"}')).toEqual({ digits: "9007199254740993" });
  });

  it("keeps as text what is beyond all doubles", () => {
    expect(parseExactly('{"x":1e400,"y":[-2.5E+309],"z":1e308}')).toEqual({
      x: "1e400",
      y: ["-2.5E+309"],
      z: 1e308,
    });
  });

  it("gives what JSON.parse gives of everything else", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(JSON.parse(exactText(parseExactly(text)))).toEqual(JSON.parse(text));
      }),
    );
    expect(() => parseExactly('{"a":')).toThrow(SyntaxError);
  });
});

describe("parseExactly with long numbers as text", () => {
  it("gives the text of what a double rounds, and of nothing else", () => {
    const text =
      '{"id":9007199254740993,"price":0.1234567890123456789012,"sum":123456.12345678901234,' +
      '"third":0.30000000000000004,"half":0.50000000000000000,"far":1e400,"kilo":1e3,' +
      '"even":9007199254740994,' +
      '"zero":0.00000000000000000,"tiny":1e-400,"n":[1.0,-0]}';
    expect(parseExactly(text, "text")).toEqual({
      id: "9007199254740993",
      price: "0.1234567890123456789012",
      sum: "123456.12345678901234",
      third: 0.30000000000000004,
      half: 0.5,
      far: "1e400",
      kilo: 1000,
      even: 9007199254740994,
      zero: 0,
      tiny: "1e-400",
      n: [1, -0],
    });
  });
});

describe("parseWritten", () => {
  it("keeps the text of numbers that JavaScript writes in another way", () => {
    const texts = [
      ...["1.0", "0.10", "1e400", "9007199254740993", "-0", "1E5", "123456.12345678901234"],
      ...["0.0000001", "-0.0", "100000000000000000000000", "2E-7", "1.50", "5E-324", "10.00"],
    ];
    for (const text of texts) {
      const value = parseWritten(text);
      expect(value, text).toBeInstanceOf(WrittenNumber);
      expect(String(value)).toBe(text);
      expect(Number(value)).toBe(Number(text));
    }
    expect((parseWritten("9007199254740993") as WrittenNumber).exact).toBe(9007199254740993n);
    expect((parseWritten("1.0") as WrittenNumber).exact).toBe(1);
    expect(parseWritten('{"a":[1,0.5,-3,"1.0"],"b":1e+21}')).toEqual({
      a: [1, 0.5, -3, "1.0"],
      b: 1e21,
    });
  });

  it("loses nothing of any number", () => {
    const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,24})(\.\d{1,24})?([eE][-+]?\d{1,3})?$/);
    fc.assert(
      fc.property(fc.array(digits), (numbers) => {
        const text = `{"list":[${numbers}]}`;
        expect(exactText(parseWritten(text))).toBe(text);
        expect(JSON.stringify(parseWritten(text))).toBe(text);
      }),
    );
  });
});

describe("a number of very many digits", () => {
  it("is read at once", () => {
    const text = `[1.${"0".repeat(1_000_000)}1]`;
    expect(exactText(parseWritten(text))).toBe(text);
  });
});

describe("exactText", () => {
  it("is the text that was parsed", () => {
    const text =
      '{"id":9007199254740993,"list":[-18446744073709551616,{"a":null}],"zero":-0,"__proto__":""}';
    expect(exactText(parseExactly(text))).toBe(text);
  });
});

describe("writtenRow", () => {
  it("keeps the odd numbers of rows of many fields", () => {
    const odd = ["1.0", "9007199254740993", "1e400", "0.1234567890123456789012", "-0", "0.10"];
    const plain = Array.from({ length: 40 }, (_, at) => [`f${at}`, at / 7] as const);
    const row = Object.fromEntries(plain);
    expect(writtenRow(row, JSON.stringify(row))).toBe(row);
    for (const text of odd) {
      const raw = `${JSON.stringify(row).slice(0, -1)},"odd":${text}}`;
      const written = writtenRow(JSON.parse(raw), raw);
      expect(String(written.odd)).toBe(text);
      expect(JSON.stringify(written)).toBe(raw);
    }
  });
});

describe("NaN and infinities", () => {
  const specials = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];

  it.each(specials)("come back from lines, and leave them as null: %s", (value) => {
    const line = keptText({ x: [value, 1], "9e+00999": 'say "1e+00999" \\ 9e+00999' });
    for (const longNumbers of ["bigint", "text"] as const) {
      expect(parseExactly(line, longNumbers)).toEqual({ ...JSON.parse(line), x: [value, 1] });
    }
    expect(parseSpecials(line)).toEqual(parseExactly(line));
    expect(keptText(parseWritten(line))).toBe(line);
    expect(keptText(toCodeValue(parseWritten(line)))).toBe(line);
    expect(JSON.stringify(parseMessage(line))).toBe(line);
    const plain = withoutSpecials(line);
    expect(JSON.parse(plain)).toEqual({ ...JSON.parse(line), x: [null, 1] });
    expect(exactText(parseExactly(line))).toBe(plain);
    expect(exactText(parseWritten(line))).toBe(plain);
  });

  it("are no others' numbers", () => {
    const line = '{"x":1e400,"y":[-1e999,9e99,1e+00998]}';
    expect(withoutSpecials(line)).toBe(line);
    expect(exactText(parseWritten(line))).toBe(line);
  });
});
