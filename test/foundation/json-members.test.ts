import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { elementTexts, memberTexts } from "../../src/foundation/json-members.ts";

describe("memberTexts", () => {
  it("gives the texts of values, whatever the names and the blanks", () => {
    const text = '{ "a\\"b" : 1.0 , "c":[1, "]"],"d":{"e":"}"}, "a\\"b": 2.50 }';
    expect([...memberTexts(text)]).toEqual([
      ['a"b', "2.50"],
      ["c", '[1, "]"]'],
      ["d", '{"e":"}"}'],
    ]);
    expect(memberTexts("{}").size).toBe(0);
  });

  it("parts every object as JSON.parse does", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const json = JSON.parse(JSON.stringify(value)) as object;
        const members = Array.from(memberTexts(JSON.stringify(json)), ([name, text]) => [
          name,
          JSON.parse(text),
        ]);
        expect(members).toEqual(Object.entries(json));
      }),
    );
  });
});

describe("elementTexts", () => {
  it("parts every list as JSON.parse does", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (list) => {
        const texts = elementTexts(JSON.stringify(list));
        expect(texts).toEqual(list.map((each) => JSON.stringify(each)));
      }),
    );
    expect(elementTexts(' [ 1.0 , {"a": [2]} ] ')).toEqual(["1.0", '{"a": [2]}']);
    expect(elementTexts("[ ]")).toEqual([]);
  });
});
