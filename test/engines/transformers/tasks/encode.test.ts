import { describe, expect, it } from "vitest";
import { withinBounds } from "../../../../src/engines/transformers/tasks/encode.ts";

const whole = { input_ids: [0, 7, 8, 9, 2], token_type_ids: [0, 0, 0, 0, 1] };
const content = [7, 8, 9];

describe("withinBounds", () => {
  it("leaves what fits", () => {
    expect(withinBounds(whole, content, { maxTokens: 5, onTooLong: "fail" })).toBe(whole);
  });

  it("cuts the text and keeps the special tokens around it", () => {
    const cut = (onTooLong: "truncate-left" | "truncate-right") =>
      withinBounds(whole, content, { maxTokens: 4, onTooLong });
    expect(cut("truncate-right")).toEqual({
      input_ids: [0, 7, 8, 2],
      token_type_ids: [0, 0, 0, 1],
    });
    expect(cut("truncate-left").input_ids).toEqual([0, 8, 9, 2]);
  });

  it.each([
    ["it is told to", { maxTokens: 4, onTooLong: "fail" }],
    ["nothing of the text would be left", { maxTokens: 2, onTooLong: "truncate-right" }],
  ] as const)("refuses where %s", (_, bounds) => {
    expect(() => withinBounds(whole, content, bounds)).toThrow(
      expect.objectContaining({ code: "PROMPT_TOO_LONG" }),
    );
  });
});
