import { describe, expect, it } from "vitest";
import { float16Values, toFloat16Bits } from "../../../../src/engines/llama/repack/float16.ts";

describe("float16Values", () => {
  it.each([
    ["zero", 0x0000, 0],
    ["one", 0x3c00, 1],
    ["minus two", 0xc000, -2],
    ["the smallest", 0x0001, 2 ** -24],
    ["the largest below normal", 0x03ff, 1023 * 2 ** -24],
    ["the smallest normal", 0x0400, 2 ** -14],
    ["a third", 0x3555, 0.333251953125],
    ["the largest", 0x7bff, 65_504],
    ["infinity", 0x7c00, Number.POSITIVE_INFINITY],
    ["no number", 0x7e00, Number.NaN],
  ])("reads %s", (_name, bits, value) => {
    expect(float16Values[bits]).toBe(value);
  });
});

describe("toFloat16Bits", () => {
  it("gives back the bits of each float from zero to infinity", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits <= 0x7c00; bits++) {
      if (toFloat16Bits(float16Values[bits]!) !== bits) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  it("takes the nearest, and of two that are level the even one", () => {
    const step = 2 ** -10;
    expect(toFloat16Bits(1 + 0.49 * step)).toBe(0x3c00);
    expect(toFloat16Bits(1 + 0.5 * step)).toBe(0x3c00);
    expect(toFloat16Bits(1 + 1.5 * step)).toBe(0x3c02);
    expect(toFloat16Bits(1 + 0.51 * step)).toBe(0x3c01);
    expect(toFloat16Bits(2 - 0.1 * step)).toBe(0x4000);
    expect(toFloat16Bits(2 ** -25)).toBe(0);
    expect(toFloat16Bits(65_519)).toBe(0x7bff);
    expect(toFloat16Bits(65_520)).toBe(0x7c00);
  });
});
