import { SluiceError } from "../../foundation/errors.ts";
import type { TextMessage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";

/**
 * The turns of a recorded conversation for which the model is asked for an answer. `first`: the
 * first turn. `last`: the last one, after the recorded answers. `every`: every turn in order, each
 * after the model's own answers.
 */
export type TurnsPolicy = "first" | "last" | "every";

/** Stands for an answer of the model that it has not given yet. */
export interface OwnAnswer {
  role: "assistant";
  /** Number of the earlier request of the row that it answers, from 0. */
  answerOf: number;
}

/** The messages of one request of a row: everything before the answer. */
export type AskedMessages = readonly (TextMessage | OwnAnswer)[];

/**
 * The requests of a recorded conversation, in order. What follows the last question is left out,
 * above all the expected answer. Empty if there is no user message.
 *
 * @throws SluiceError `ELEMENTS_TOO_MANY`.
 * @example
 * planTurns([{ role: "user", content: "a" }, { role: "assistant", content: "b" }], "last");
 * // [[{ role: "user", content: "a" }]]
 */
export function planTurns(messages: readonly TextMessage[], policy: TurnsPolicy): AskedMessages[] {
  const ends = questionEnds(messages);
  if (policy === "first") return ends.slice(0, 1).map((end) => messages.slice(0, end));
  if (policy === "last") return ends.slice(-1).map((end) => messages.slice(0, end));
  if (ends.length > limits.maxElements) {
    const detail = `the conversation has ${ends.length} turns, the most is ${limits.maxElements}`;
    throw new SluiceError("ELEMENTS_TOO_MANY", detail);
  }
  let before: AskedMessages = [];
  let from = 0;
  return ends.map((end, at) => {
    const part = messages.slice(from, end);
    // The first part keeps assistant messages that come before any question.
    const asked = at === 0 ? part : part.filter(({ role }) => role !== "assistant");
    const ask = [...before, ...asked];
    before = [...ask, { role: "assistant", answerOf: at }];
    from = end;
    return ask;
  });
}

/**
 * The messages of a request, with the model's answers filled in.
 *
 * @param answers to the row's earlier requests, in order.
 */
export function filledIn(asked: AskedMessages, answers: readonly string[]): TextMessage[] {
  return asked.map((message) =>
    "content" in message ? message : { role: "assistant", content: answers[message.answerOf]! },
  );
}

/**
 * Where each question ends: before an answer or at the end, if a user message came since the last
 * question. Without any recorded answer, each user message is a question.
 */
function questionEnds(messages: readonly TextMessage[]): number[] {
  const ends: number[] = [];
  if (!messages.some(({ role }) => role === "assistant")) {
    for (const [at, { role }] of messages.entries()) if (role === "user") ends.push(at + 1);
    return ends;
  }
  let hasQuestion = false;
  for (const [at, { role }] of messages.entries()) {
    if (role === "user") hasQuestion = true;
    const next = messages[at + 1];
    if (hasQuestion && role !== "assistant" && (!next || next.role === "assistant")) {
      ends.push(at + 1);
      hasQuestion = false;
    }
  }
  return ends;
}
