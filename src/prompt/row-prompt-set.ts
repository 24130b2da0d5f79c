import { type LongNumbers, numbersAsTexts, writtenRow } from "../foundation/exact-json.ts";
import type { Answer, SamplingParameters } from "../foundation/inference.ts";
import type { Json, JsonObject } from "../foundation/json.ts";
import { changedPromptSet, type PromptSet } from "./prompt-set.ts";
import type { RowRequest } from "./row-request.ts";

/**
 * The prompts of a job without prompts, for an engine that reads rows: each row is one request,
 * with the row and without words. The engine's answer is the row's answer; several answers are a
 * list.
 *
 * @example
 * rowPromptSet(parameters).requests({ id: 7 }, 0)[0].row; // { id: 7 }
 */
export function rowPromptSet(parameters: SamplingParameters, longNumbers?: LongNumbers): PromptSet {
  const names = ["row"];
  const shared = Object.freeze({ ...parameters });
  const answer: PromptSet["answer"] = (_requests, [response]) => {
    const given = response?.answers.map(jsonOf) ?? [];
    return given.length > 1 ? given : (given[0] ?? null);
  };
  return {
    names,
    requests(value, index, _dataset, raw) {
      const row = rowInCode(value, raw, longNumbers);
      return [{ origin: { index, promptName: names[0]! }, parameters: shared, row }];
    },
    ready: (requests, _responses, at) => requests[at]!,
    accept: (_request, response) => response,
    reask: (request) => request,
    answer,
    partialAnswer: answer,
  };
}

/** The row for the engine's code; numbers whose text matters are `WrittenNumber`. */
function rowInCode(
  value: JsonObject,
  raw: string | undefined,
  longNumbers: LongNumbers | undefined,
): JsonObject {
  const row = raw === undefined ? value : writtenRow(value, raw);
  return (longNumbers === "text" ? numbersAsTexts(row) : row) as JsonObject;
}

function jsonOf({ value, text }: Answer): Json {
  return value === undefined ? text : value;
}

function withRow(requests: RowRequest[], row: JsonObject): RowRequest[] {
  for (const request of requests) request.row = row;
  return requests;
}

/** Adds the row to each request, for an engine that reads more than the words. */
export function withRows(promptSet: PromptSet, longNumbers?: LongNumbers): PromptSet {
  const { keeper } = promptSet;
  return changedPromptSet(promptSet, {
    keeper: keeper && {
      keep: (requests) => keeper.keep(requests),
      restore: (kept, index, row, raw) =>
        withRow(keeper.restore(kept, index, row), rowInCode(row, raw, longNumbers)),
    },
    requests: (value, index, dataset, raw) =>
      withRow(promptSet.requests(value, index, dataset, raw), rowInCode(value, raw, longNumbers)),
  });
}
