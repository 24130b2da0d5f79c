import { describe, expect, it } from "vitest";
import type { PromptPiece } from "../../../src/engines/weights/chat-template.ts";
import { promptTokens, tokenParts } from "../../../src/engines/weights/prompt-tokens.ts";
import type { TooLongPolicy } from "../../../src/foundation/inference.ts";

// A token a character; `*` is special where special tokens are read.
const tokenizer = {
  tokenize: (text: string, special: boolean) =>
    [...text].map((character) => (special && character === "*" ? -1 : character.charCodeAt(0))),
};
const pieces: PromptPiece[] = [
  { kind: "template", text: "*u" },
  { kind: "content", text: "ab*cdef" },
  { kind: "template", text: "*a" },
];
const ask = (contextTokens: number, policy: TooLongPolicy, firstToken?: number) =>
  promptTokens(tokenParts(pieces, tokenizer), firstToken, {
    contextTokens,
    maxNewTokens: 2,
    policy,
  })
    .map((token) => (token === -1 ? "!" : token === -2 ? "^" : String.fromCharCode(token)))
    .join("");

describe("promptTokens", () => {
  it("reads special tokens in the template alone", () => {
    expect(ask(100, "fail")).toBe("!uab*cdef!a");
  });

  it("puts the model's first token first, once", () => {
    expect(ask(100, "fail", -2)).toBe("^!uab*cdef!a");
    expect(ask(100, "fail", -1)).toBe("!uab*cdef!a");
  });

  it("leaves room for the answer, and says how long prompt and context are", () => {
    expect(ask(13, "fail")).toHaveLength(11);
    expect(() => ask(12, "fail")).toThrow(/11 tokens.*2 of answer.*12/);
  });

  it("cuts contents at the side that is asked, and never the template", () => {
    expect(ask(9, "truncate-left")).toBe("!udef!a");
    expect(ask(9, "truncate-right")).toBe("!uab*!a");
  });

  it("keeps template and contents apart, by turns", () => {
    expect(tokenParts([{ kind: "content", text: "a" }], tokenizer)).toEqual([[], [97]]);
    const [first, ...rest] = pieces;
    expect(tokenParts([first!, first!, ...rest], tokenizer)).toEqual([
      [-1, 117],
      [],
      [-1, 117],
      [..."ab*cdef"].map((character) => character.charCodeAt(0)),
      [-1, 97],
    ]);
  });

  it("fails when the template alone is too long", () => {
    expect(() => ask(5, "truncate-left")).toThrow(
      expect.objectContaining({ code: "PROMPT_TOO_LONG" }),
    );
  });
});
