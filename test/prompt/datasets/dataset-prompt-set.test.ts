import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../src/foundation/errors.ts";
import type { InferenceResponse } from "../../../src/foundation/inference.ts";
import {
  datasetPromptSet,
  type PromptedDataset,
} from "../../../src/prompt/datasets/dataset-prompt-set.ts";
import { generationParameters } from "../../../src/run/job/generation.ts";

const common = { generation: generationParameters({ returnFullText: false }, 1) };
const setOf = (...datasets: Partial<PromptedDataset>[]) =>
  datasetPromptSet(
    datasets.map((dataset) => ({
      name: "one",
      type: "completion",
      onTooLong: "fail" as const,
      ...dataset,
    })),
    common,
  );
const answered = (text: string): InferenceResponse => ({
  answers: [{ text, tokens: 1, finishReason: "stop" }],
  usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 1 },
  seconds: 0,
});

const errorOf = (make: () => unknown): SluiceError => {
  try {
    make();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
};

describe("datasetPromptSet", () => {
  it("asks each row the prompt of its dataset", () => {
    const set = setOf(
      { field: "a" },
      { name: "two", type: "metharme", onTooLong: "truncate-left" },
    );
    const row = { a: "from a", prompt: "from prompt" };
    expect(set.requests(row, 3, "one")).toMatchObject([
      { origin: { index: 3, promptName: "one" }, prompt: "from a", onTooLong: "fail" },
    ]);
    expect(set.requests(row, 4, "two")).toMatchObject([
      {
        origin: { index: 4, promptName: "two" },
        prompt: "from prompt",
        onTooLong: "truncate-left",
      },
    ]);
    expect(set.names).toHaveLength(1);
  });

  it("answers with the text alone, or a list of turns", () => {
    const set = setOf({}, { name: "chat", type: "sharegpt", turns: "every" });
    const text = set.requests({ text: "Once" }, 0, "one");
    expect(set.answer(text, [answered("upon")])).toBe("upon");
    expect(set.partialAnswer([], [])).toBeNull();
    const turns = [
      { from: "human", value: "Q1" },
      { from: "gpt", value: "recorded" },
      { from: "human", value: "Q2" },
    ];
    const asked = set.requests({ conversations: turns }, 1, "chat");
    const first = answered("A1");
    expect(set.ready(asked, [first, undefined], 1).messages).toEqual([
      { role: "user", content: "Q1" },
      { role: "assistant", content: "A1" },
      { role: "user", content: "Q2" },
    ]);
    expect(set.answer(asked, [first, answered("A2")])).toEqual(["A1", "A2"]);
    expect(set.partialAnswer(asked, [first, undefined])).toEqual(["A1", null]);
  });

  it("names the key of a dataset as the job file has it", () => {
    const unknown = errorOf(() => setOf({}, { name: "two", type: "alpacca" }));
    expect(unknown.message).toMatch(/did you mean alpaca\?.*field dataset\.1\.type/);
    const stray = errorOf(() => setOf({ type: "alpaca", field_messages: "m" }));
    expect(stray.code).toBe("JOB_INVALID");
    expect(stray.message).toMatch(/\(field dataset\.0\.field_messages\)$/);
    expect(stray.place.field).toBe("dataset.0.field_messages");
  });

  it("refuses a row of a dataset that the job does not have", () => {
    const { code, message } = errorOf(() => setOf({}).requests({}, 0, "gone"));
    expect([code, message]).toEqual(["RUN_DAMAGED", expect.stringContaining("dataset gone")]);
  });
});
