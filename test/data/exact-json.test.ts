import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exactText, parseExactly } from "../../src/data/exact-json.ts";

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

describe("exactText", () => {
  it("is the text that was parsed", () => {
    const text =
      '{"id":9007199254740993,"list":[-18446744073709551616,{"a":null}],"zero":-0,"__proto__":""}';
    expect(exactText(parseExactly(text))).toBe(text);
  });
});
