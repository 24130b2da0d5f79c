import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../src/foundation/errors.ts";
import { text } from "../../src/foundation/grammar.ts";
import { sha256Hex } from "../../src/foundation/hashing.ts";
import { greedyParameters, type InferenceRequest } from "../../src/foundation/inference.ts";
import { Suspects } from "../../src/serve/suspects.ts";
import { BatchToken, Tokens } from "../../src/serve/tokens.ts";

/** What it returns, or the code of what it throws. */
function outcomeOf<T>(act: () => T): T | string {
  try {
    return act();
  } catch (error) {
    return (error as SluiceError).code;
  }
}

describe("the token of a server's own batches", () => {
  it("is refused in every other form, of whatever length", () => {
    const token = new BatchToken("abc");
    expect(token.callerOf("Bearer abc")).toMatchObject({ name: "batch", priority: "batch" });
    for (const given of ["Bearer abd", "Bearer abcd", "Bearer ab", "bearer abc", "", undefined]) {
      expect(outcomeOf(() => token.callerOf(given))).toBe("TOKEN_INVALID");
    }
  });
});

describe("tokens", () => {
  it("let a caller in that has one, for what it may do", () => {
    const one = { name: "ada", sha256: sha256Hex("s3cret"), weight: 2, scopes: ["infer"] };
    const tokens = new Tokens({ tokens: [one as never], insecure: false });
    const asked = (authorization: string | undefined, scope: "infer" | "manage") =>
      outcomeOf(() => tokens.callerOf({ authorization }, scope, "127.0.0.1"));
    expect(asked("bearer  s3cret", "infer")).toEqual({
      ...{ name: "ada", weight: 2, priority: "online" },
    });
    expect(asked("Bearer s3cret", "manage")).toBe("TOKEN_FORBIDDEN");
    for (const other of ["Bearer other", "s3cret", "Basic s3cret", undefined]) {
      expect(asked(other, "infer")).toBe("TOKEN_INVALID");
    }
  });
});

describe("a request that ends its model", () => {
  const requestOf = (prompt: string, seed = 1, more: Partial<InferenceRequest> = {}) => ({
    request: { prompt, parameters: { ...greedyParameters, maxNewTokens: 1, seed }, ...more },
  });

  it("runs alone after two deaths in company, and is refused after three alone", () => {
    const suspects = new Suspects();
    const stateOf = (prompt: string, seed?: number) =>
      outcomeOf(() => suspects.mustBeAlone(requestOf(prompt, seed)));
    // A client that repeats it without a seed of its own gets another one each time.
    suspects.noteDeath(requestOf("bad", 1), false);
    suspects.noteDeath(requestOf("good", 5), false);
    expect([stateOf("bad"), stateOf("good")]).toEqual([false, false]);
    suspects.noteDeath(requestOf("bad", 2), false);
    expect([stateOf("bad", 3), stateOf("good")]).toEqual([true, false]);
    for (const seed of [4, 5]) suspects.noteDeath(requestOf("bad", seed), true);
    expect(stateOf("bad", 6)).toBe(true);
    suspects.noteDeath(requestOf("bad", 7), true);
    expect([stateOf("bad", 8), stateOf("good"), stateOf("other")]).toEqual([
      "ROW_KILLS_ENGINE",
      false,
      false,
    ]);
  });

  it("is another one with other tools, another form, or as an embedding", () => {
    const suspects = new Suspects();
    for (const seed of [1, 2]) suspects.noteDeath(requestOf("bad", seed), false);
    const tools = [{ type: "function", function: { name: "f" } }];
    const others: Partial<InferenceRequest>[] = [
      ...[{ tools }, { tools, toolChoice: "required" as const }, { embed: true }],
      { structure: { schema: { type: "object" }, grammar: { root: text("{}"), rules: {} } } },
      { transcription: { language: "de" } },
    ];
    for (const other of others) {
      expect(suspects.mustBeAlone(requestOf("bad", 3, other))).toBe(false);
    }
    expect(suspects.mustBeAlone(requestOf("bad", 3))).toBe(true);
  });

  it("is known by what its row or file says, if these have something new each time", () => {
    const suspects = new Suspects();
    for (const at of [1, 2]) {
      suspects.noteDeath({ ...requestOf("", 1, { file: `sound ${at}` }), content: "same" }, false);
    }
    const next = requestOf("", 1, { file: "sound 3" });
    expect(suspects.mustBeAlone({ ...next, content: "same" })).toBe(true);
    expect(suspects.mustBeAlone({ ...next, content: "other" })).toBe(false);
  });

  it("is cleared by an answer", () => {
    const suspects = new Suspects();
    for (const seed of [1, 2]) suspects.noteDeath(requestOf("slow", seed), false);
    expect(suspects.mustBeAlone(requestOf("slow", 3))).toBe(true);
    suspects.clear(requestOf("slow", 4));
    expect(suspects.mustBeAlone(requestOf("slow", 5))).toBe(false);
  });
});
