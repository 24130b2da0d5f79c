import { describe, expect, it } from "vitest";
import { sampleRows } from "../../../../src/engines/transformers/decode/sample.ts";
import { seededRandom } from "../../../../src/foundation/random.ts";
import { type Grammar, ScriptedSteps } from "./scripted-steps.ts";

const end = 0;
const never = new AbortController().signal;
const greedy = { temperature: 0, topP: 1, topK: 0, minP: 0 };

/** Each row ends after as many tokens as its number. */
const countdown: Grammar = (tokens, row) =>
  tokens.length < row ? { 1: 0.8, 2: 0.2 } : { [end]: 1 };

const row = (maxNewTokens: number, seed = 1) => ({
  prompt: [5],
  maxNewTokens,
  rules: () => {},
  random: seededRandom(seed),
});

describe("sampleRows", () => {
  it("ends each row at its own end, and computes it no further", async () => {
    const steps = new ScriptedSteps(3, 6, countdown);
    const options = { parameters: greedy, endTokens: new Set([end]), copies: 1 };
    const rows = [row(9), row(9), row(9)];
    const sequences = await sampleRows(steps, rows, options, never);
    expect(sequences).toEqual([
      { tokens: [end], finishReason: "stop" },
      { tokens: [1, end], finishReason: "stop" },
      { tokens: [1, 1, end], finishReason: "stop" },
    ]);
    expect(steps.widths).toEqual([3, 2, 1]);
  });

  it("ends each row at its own limit, and where it has enough", async () => {
    const steps = new ScriptedSteps(2, 6, () => ({ 1: 1 }));
    const options = { parameters: greedy, endTokens: new Set([end]), copies: 1 };
    const enough = { ...row(9), isEnough: (tokens: readonly number[]) => tokens.length === 3 };
    const sequences = await sampleRows(steps, [row(2), enough], options, never);
    expect(sequences).toEqual([
      { tokens: [1, 1], finishReason: "length" },
      { tokens: [1, 1, 1], finishReason: "stop" },
    ]);
  });

  it("computes a prompt once for all its copies, each with its own chance", async () => {
    const steps = new ScriptedSteps(2, 6, () => ({ 1: 0.5, 2: 0.5 }));
    const options = {
      parameters: { ...greedy, temperature: 1 },
      endTokens: new Set([end]),
      copies: 2,
    };
    const rows = [row(8, 1), row(8, 2), row(8, 3), row(8, 4)];
    const sequences = await sampleRows(steps, rows, options, never);
    expect(steps.widths[0]).toBe(2);
    expect(steps.widths[1]).toBe(4);
    expect(new Set(sequences.map(({ tokens }) => tokens.join(""))).size).toBe(4);
  });

  it("asks the rules of each row about all that it has", async () => {
    const seen: string[] = [];
    const noting = {
      ...row(2),
      rules: (tokens: readonly number[]) => void seen.push(tokens.join()),
    };
    const steps = new ScriptedSteps(1, 6, () => ({ 1: 1 }));
    const options = { parameters: greedy, endTokens: new Set([end]), copies: 1 };
    await sampleRows(steps, [noting], options, never);
    expect(seen).toEqual(["5", "5,1"]);
  });
});
