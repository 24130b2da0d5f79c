import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { selectFields, spliceField } from "../../src/data/splice.ts";
import { anyName, anyValue } from "./json-values.ts";

describe("spliceField", () => {
  it.each([
    ["{}", '{"a":1}'],
    ["{ }", '{ "a":1}'],
    ['{"b":2}', '{"b":2,"a":1}'],
    ['{"b":2 } \t', '{"b":2 ,"a":1} \t'],
    ['{"b":{}}', '{"b":{},"a":1}'],
    ['{"b":"{"}', '{"b":"{","a":1}'],
    ['{"n":9007199254740993,"f":1.0,"n":1e2}', '{"n":9007199254740993,"f":1.0,"n":1e2,"a":1}'],
    ['{"b":"\\u0061"}', '{"b":"\\u0061","a":1}'],
    ['{"b":{"a":5}}', '{"b":{"a":5},"a":1}'],
    ['{"b":"\\"a\\":5"}', '{"b":"\\"a\\":5","a":1}'],
  ])("adds the field to %s", (raw, expected) => {
    expect(spliceField(raw, '"a"', "1")).toBe(expected);
  });

  it.each([
    ['{"a":0}', '{"a":1}'],
    ['{ "a" : "}\\"," , "b":1.0 }', '{ "a" : 1 , "b":1.0 }'],
    [
      '{"n":9007199254740993,"a":{"x":[1,{"a":2}]},"z":1e2}',
      '{"n":9007199254740993,"a":1,"z":1e2}',
    ],
    ['{"a":true,"a":[]}', '{"a":1,"a":1}'],
    ['{"\\u0061":0}', '{"\\u0061":1}'],
    ['{"b":"\\\\","a":-0.5e3}', '{"b":"\\\\","a":1}'],
  ])("replaces it in %s", (raw, expected) => {
    expect(spliceField(raw, '"a"', "1")).toBe(expected);
    expect(spliceField(raw, '"a"', "1", true)).toBe(expected);
  });

  it("takes the caller's word that the field is not there", () => {
    expect(spliceField('{"b":"a"}', '"a"', "1", false)).toBe('{"b":"a","a":1}');
  });

  it("equals setting the field of the parsed object", () => {
    const name = fc.oneof(fc.constantFrom("a", "b", "a b", 'q"', "\n", "é"), anyName);
    fc.assert(
      fc.property(
        fc.dictionary(name, anyValue),
        name,
        anyValue,
        fc.constantFrom(undefined, 1, "\t"),
        (row, field, value, indent) => {
          const raw = JSON.stringify(row, null, indent);
          const before = JSON.parse(raw);
          const spliced = spliceField(raw, JSON.stringify(field), JSON.stringify(value));
          const expected = Object.entries(before).filter(([key]) => key !== field);
          const { [field]: found, ...others } = JSON.parse(spliced);
          expect(JSON.stringify(found)).toBe(JSON.stringify(value));
          expect(others).toEqual(Object.fromEntries(expected));
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe("selectFields", () => {
  it.each([
    ['{"a":1.0,"b":9007199254740993,"c":3}', ["b", "a"], '{"b":9007199254740993,"a":1.0}'],
    [' { "a" : {"b": "}"} , "c":[1, 2] } ', ["c", "x", "a"], '{"c":[1, 2],"a":{"b": "}"}}'],
    ['{"a":1,"a":2}', ["a"], '{"a":2}'],
    ['{"\\u0061":"\\""}', ["a"], '{"a":"\\""}'],
    ["{}", ["a"], "{}"],
  ])("keeps of %s the fields %j", (raw, names, expected) => {
    expect(selectFields(raw, names)).toBe(expected);
  });

  it("gives what the parsed object has", () =>
    fc.assert(
      fc.property(fc.dictionary(anyName, anyValue), fc.nat(), (value, skipped) => {
        const names = Object.keys(value).filter((_, at) => at % 3 !== skipped % 3);
        const raw = JSON.stringify(value, null, skipped % 2);
        const kept = Object.fromEntries(names.map((name) => [name, value[name]]));
        expect(JSON.parse(selectFields(raw, names))).toEqual(JSON.parse(JSON.stringify(kept)));
      }),
    ));
});
