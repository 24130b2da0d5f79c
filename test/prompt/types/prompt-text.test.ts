import { describe, expect, it } from "vitest";
import { cleanedPrompt, truncateFeatures } from "../../../src/prompt/types/prompt-text.ts";

describe("truncateFeatures", () => {
  it("empties fields that are there, and leaves the row itself alone", () => {
    const row = { a: "x", b: [1] };
    expect(truncateFeatures(row, ["b", "c"])).toEqual({ a: "x", b: "" });
    expect(row).toEqual({ a: "x", b: [1] });
    expect(truncateFeatures(row, ["c"])).toBe(row);
  });
});

describe("cleanedPrompt", () => {
  it("cuts end-of-sequence tokens off the end, however many, and none elsewhere", () => {
    expect(cleanedPrompt("a</s>b</s></s>", { eosToken: "</s>" })).toBe("a</s>b");
    expect(cleanedPrompt("a</s> ", { eosToken: "</s>" })).toBe("a</s> ");
    expect(cleanedPrompt("</s>", { eosToken: "</s>" })).toBe("");
    expect(cleanedPrompt("a", { eosToken: "" })).toBe("a");
  });

  it("strips white space on both sides of the token", () => {
    const cleaning = { stripWhitespace: true, eosToken: "</s>" };
    expect(cleanedPrompt("\n a b \n</s>\n", cleaning)).toBe("a b");
    expect(cleanedPrompt(" a ", {})).toBe(" a ");
  });
});
