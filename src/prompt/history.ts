import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import type { TextMessage } from "../foundation/inference.ts";
import type { Expression } from "./expression.ts";
import { wrongType } from "./field-errors.ts";
import { isObject, kindOf, printValue } from "./value-text.ts";

const askedKeys = ["user", "human"];
const answeredKeys = ["bot", "assistant", "gpt"];
const roles: Readonly<Record<string, TextMessage["role"]>> = {
  ...{ user: "user", human: "user", assistant: "assistant", bot: "assistant", gpt: "assistant" },
  ...{ system: "system", developer: "system" },
};
const turnForms = "{user, bot}, {role, content} or [user, bot]";

/**
 * The messages of an earlier conversation. A turn in the list is `{user, bot}`, where either may be
 * absent, `{role, content}`, or a pair of texts. Null means no history.
 *
 * @param name of the key, for messages: `prompt.history`.
 * @throws SluiceError `FIELD_TYPE`, which names the turn: `prompt.history[2]`.
 * @example
 * const turns = [{ user: "Hi", bot: "Hello" }];
 * historyMessages(compileExpression("turns", { name }), { turns }, undefined, name);
 * // [{ role: "user", content: "Hi" }, { role: "assistant", content: "Hello" }]
 */
export function historyMessages(
  expression: Expression,
  row: WrittenRow,
  extra: WrittenRow | undefined,
  name: string,
): TextMessage[] {
  const turns = expression.evaluate(row, extra);
  if (turns === null) return [];
  if (!Array.isArray(turns)) throw wrongType({ name }, `it gives ${kindOf(turns)}, not a list`);
  return turns.flatMap((turn, at) => {
    const messages = messagesOf(turn);
    if (messages !== undefined) return messages;
    throw wrongType({ name: `${name}[${at}]` }, `a turn is ${turnForms}, all of them texts`);
  });
}

/** The messages of one turn; undefined if the value is not a turn. */
function messagesOf(turn: WrittenJson): TextMessage[] | undefined {
  if (Array.isArray(turn)) return turn.length === 2 ? pairOf(turn[0], turn[1]) : undefined;
  if (!isObject(turn)) return undefined;
  const { role = turn.from, content = turn.value } = turn;
  if (role !== undefined) {
    const known = typeof role === "string" && Object.hasOwn(roles, role) ? roles[role] : undefined;
    const text = textOf(content);
    return known && text !== undefined ? [{ role: known, content: text }] : undefined;
  }
  const [asked, answered] = [askedKeys, answeredKeys].map((keys) =>
    keys.find((key) => turn[key] !== undefined),
  );
  if (asked === undefined && answered === undefined) return undefined;
  return pairOf(asked === undefined ? null : turn[asked], answered && turn[answered]);
}

/** A question and its answer; either may be absent. */
function pairOf(
  asked: WrittenJson | undefined,
  answered: WrittenJson | undefined,
): TextMessage[] | undefined {
  const messages: TextMessage[] = [];
  for (const [role, value = null] of [
    ["user", asked],
    ["assistant", answered],
  ] as const) {
    const content = textOf(value);
    if (value !== null && content === undefined) return undefined;
    if (content !== undefined) messages.push({ role, content });
  }
  return messages;
}

function textOf(value: WrittenJson | undefined): string | undefined {
  if (value === undefined || value === null || isObject(value) || Array.isArray(value)) return;
  return printValue(value);
}
