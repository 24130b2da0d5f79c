import { describe, expect, it } from "vitest";
import { parseMemory } from "../../src/foundation/memory-size.ts";

describe("parseMemory", () => {
  it.each([
    ["1K", 1024],
    ["512MiB", 512 * 1024 ** 2],
    ["1.5g", 1.5 * 1024 ** 3],
    ["120 GB", 120 * 1024 ** 3],
    ["2T", 2 * 1024 ** 4],
  ])("reads %s", (text, bytes) => {
    expect(parseMemory(text)).toBe(bytes);
  });

  it("refuses what is no size", () => {
    expect(() => parseMemory("much")).toThrow('"much" is not a size');
  });
});
