import { expect, it } from "vitest";
import { greedyParameters, noUsage } from "../../src/foundation/inference.ts";
import type { Json } from "../../src/foundation/json.ts";
import { promptOptions } from "../../src/prompt/prompt-options.ts";
import { compilePromptSet } from "../../src/prompt/prompt-set.ts";
import { rowPromptSet, withRows } from "../../src/prompt/row-prompt-set.ts";

const generation = { ...greedyParameters, maxNewTokens: 5, seed: 1 };
const response = (answer: { text: string; value?: Json }) => ({
  answers: [{ ...answer, finishReason: "stop" as const, tokens: 0 }],
  usage: noUsage,
  seconds: 0,
});

it("asks each row once, without words, and takes what comes as the answer", () => {
  const set = rowPromptSet(generation);
  const requests = set.requests({ text: "a" }, 4);
  expect(requests).toMatchObject([{ origin: { index: 4, promptName: "row" }, row: { text: "a" } }]);
  expect(requests[0]?.messages ?? requests[0]?.prompt).toBeUndefined();
  expect(set.answer(requests, [response({ text: "[1]", value: [1] })])).toEqual([1]);
  expect(set.answer(requests, [response({ text: "words" })])).toBe("words");
  expect(set.answer(requests, [response({ text: "null", value: null })])).toBeNull();
  const several = { ...response({ text: "a" }) };
  several.answers = [...several.answers, ...response({ text: "b" }).answers];
  expect(set.answer(requests, [several])).toEqual(["a", "b"]);
  expect(set.partialAnswer(requests, [undefined])).toBeNull();
  expect(set.ready(requests, [], 0)).toBe(requests[0]);
});

it("keeps a value that is null, beside a prompt as well", () => {
  const prompt = promptOptions.parse({ prompt: "Say {{ item }}", forEach: "words" });
  const set = compilePromptSet({ prompt, generation });
  const requests = set.requests({ words: ["one", "two"] }, 0);
  const none = response({ text: "null", value: null });
  const both = { ...none, answers: [...none.answers, ...none.answers] };
  expect(set.answer(requests, [none, both])).toEqual([null, [null, null]]);
});

it("adds the row to each request of other prompts, also where they were kept", () => {
  const prompt = promptOptions.parse({ prompt: "Say {{ item }}", forEach: "words" });
  const set = withRows(compilePromptSet({ prompt, generation }));
  const row = { words: ["one", "two"] };
  const requests = set.requests(row, 0);
  expect(requests.map((request) => request.row)).toEqual([row, row]);
  expect(requests[1]?.messages?.[0]?.content).toBe("Say two");
  const kept = set.keeper!.keep(requests);
  expect(JSON.stringify(kept)).not.toContain("words");
  expect(set.keeper!.restore(kept, 0, row)).toEqual(requests);
});
