import { describe, expect, it } from "vitest";
import {
  answeredHead,
  isCut,
  parseJournalLine,
  type RequestRecord,
  requestRecord,
} from "../../../src/run/attempt/journal-line.ts";
import { responseOf } from "../scripted-engine.ts";

const record: RequestRecord = {
  promptTokens: 7,
  tokens: [3],
  seconds: 0.25,
  finishReason: "stop",
  attempts: 2,
};

const logprobs = [{ token: "yes", logprob: -0.5, alternatives: [] }];

describe("requestRecord", () => {
  it("keeps tokens, seconds, finish reason and tries", () => {
    expect(requestRecord(responseOf("yes"), 2)).toEqual(record);
  });

  it("keeps the tokens of each answer, and cached ones only where there are some", () => {
    const response = responseOf("yes");
    const [answer] = response.answers;
    const usage = { promptTokens: 7, cachedTokens: 5, completionTokens: 7 };
    const two = { ...response, usage, answers: [answer!, { ...answer!, tokens: 4 }] };
    expect(requestRecord(two, 1)).toMatchObject({ tokens: [3, 4], cachedTokens: 5 });
    expect(requestRecord(response, 1)).not.toHaveProperty("cachedTokens");
  });

  it("keeps log-probabilities of each answer, where there are some", () => {
    const response = responseOf("yes");
    const [answer] = response.answers;
    const answers = [{ ...answer!, logprobs }, { ...answer! }];
    expect(requestRecord({ ...response, answers }, 1).logprobs).toEqual([logprobs, []]);
    expect(requestRecord(response, 1)).not.toHaveProperty("logprobs");
  });

  it("says of several answers that one was cut, else how the first strange one ended", () => {
    const response = responseOf("yes");
    const [answer] = response.answers;
    const answers = [answer!, { ...answer!, finishReason: "length" as const }];
    expect(requestRecord({ ...response, answers }, 1).finishReason).toBe("length");
    const refused = { ...answer!, finishReason: "error" as const };
    const ofBoth = { ...response, answers: [refused, ...answers] };
    expect(requestRecord(ofBoth, 1).finishReason).toBe("length");
    expect(requestRecord({ ...response, answers: [answer!, refused] }, 1).finishReason).toBe(
      "error",
    );
  });
});

describe("answeredHead", () => {
  it.each([
    ["one plain request", [record]],
    ["a cached prompt", [{ ...record, cachedTokens: 4 }]],
    ["several answers", [{ ...record, tokens: [3, 4] }]],
    ["log-probabilities", [{ ...record, logprobs: [logprobs] }]],
    ["several requests", [record, { ...record, finishReason: "length" }]],
    ["no request", []],
  ])("writes %s as JSON.stringify would", (_name, requests) => {
    const line = { index: 12, outcome: "answered", requests, answer: { a: 'q"1' } };
    const text = `${answeredHead(12, requests)}${JSON.stringify(line.answer)}}`;
    expect(text).toBe(JSON.stringify(line));
  });
});

describe("answeredHead of tokens beyond ASCII", () => {
  it("is ASCII all the same, for its length is taken as its bytes", () => {
    const tokens = ["ü", "😀", "\u2028"].map((token) => ({ ...logprobs[0]!, token }));
    const requests = [{ ...record, logprobs: [tokens] }];
    const head = answeredHead(12, requests);
    expect(Buffer.byteLength(head)).toBe(head.length);
    expect(JSON.parse(`${head}null}`).requests).toEqual(requests);
  });
});

describe("isCut", () => {
  it("is true where any answer ended at its limit", () => {
    expect(isCut([record, { ...record, finishReason: "length" }])).toBe(true);
    expect(isCut([record])).toBe(false);
    expect(isCut([])).toBe(false);
  });
});

describe("parseJournalLine", () => {
  const text = '{"index":3,"outcome":"asked","together":2}';

  it("takes a line only with its end", () => {
    expect(parseJournalLine(text, true)).toEqual({ index: 3, outcome: "asked", together: 2 });
    expect(parseJournalLine(text, false)).toBeUndefined();
  });

  it.each(["", "null", "3", '{"index":3', '{"outcome":"asked"}', '{"index":"3"}', '{"index":1.5}'])(
    "does not take %s",
    (torn) => {
      expect(parseJournalLine(torn, true)).toBeUndefined();
    },
  );
});
