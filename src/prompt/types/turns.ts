import { SluiceError } from "../../foundation/errors.ts";
import type { TextMessage } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";

/**
 * Which turns of a recorded conversation the model is asked for: the first; the last, with the
 * recorded answers before it; or every one in order, with the model's own answers before it.
 */
export type TurnsPolicy = "first" | "last" | "every";

/** Stands for what the model said itself, before it has. */
export interface OwnAnswer {
  role: "assistant";
  /** Which ask of the same row it answered, from 0. */
  answerOf: number;
}

/** One question of a row: the messages before the answer. */
export type AskedMessages = readonly (TextMessage | OwnAnswer)[];

/**
 * What a recorded conversation asks, in order. Whatever stands after the last question, the
 * expected answer above all, is left out. No ask where no user speaks.
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
    // The first part keeps what the assistant says of itself before anybody asked.
    const asked = at === 0 ? part : part.filter(({ role }) => role !== "assistant");
    const ask = [...before, ...asked];
    before = [...ask, { role: "assistant", answerOf: at }];
    from = end;
    return ask;
  });
}

/**
 * The messages of an ask, with the model's answers in their places.
 *
 * @param answers of the row's asks so far, in order.
 */
export function filledIn(asked: AskedMessages, answers: readonly string[]): TextMessage[] {
  return asked.map((message) =>
    "content" in message ? message : { role: "assistant", content: answers[message.answerOf]! },
  );
}

/**
 * Where each question ends: before an answer or at the end, if a user spoke since the last. Where
 * no answers are recorded at all, each message of the user is a question.
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
