import type { ChatMessage, InferenceRequest } from "../foundation/inference.ts";

/** A text or a list as what it has beyond another one: how much it begins alike, and the rest. */
export type Beyond<Whole> = readonly [shared: number, rest: Whole];

/** What an engine reads of a request. */
type Words = Pick<InferenceRequest, "prompt" | "messages" | "tokens">;

type Known<Parts> = { [Name in keyof Parts]: Parts[Name] | undefined };

/** The same as JSON, as what it has beyond the words of another request. */
export interface KeptWords {
  prompt?: Beyond<string>;
  messages?: readonly { role: ChatMessage["role"]; content: Beyond<string> }[];
  tokens?: readonly Beyond<readonly number[]>[];
}

/** Makes words short: requests of one row often begin with the same examples. */
export function keptWords({ prompt, messages, tokens }: Known<Words>, before: Words): KeptWords {
  return {
    ...(prompt !== undefined && { prompt: beyond(prompt, before.prompt ?? "") }),
    ...(messages && {
      messages: messages.map(({ role, content }, at) => {
        return { role, content: beyond(content, before.messages?.[at]?.content ?? "") };
      }),
    }),
    ...(tokens && { tokens: tokens.map((part, at) => beyond(part, before.tokens?.[at] ?? [])) }),
  };
}

/** The words that were kept, from those of the same other request. */
export function restoredWords(
  { prompt, messages, tokens }: Known<KeptWords>,
  before: Words,
): Words {
  return {
    ...(prompt && { prompt: wholeText(prompt, before.prompt) }),
    ...(messages && {
      messages: messages.map(({ role, content }, at) => {
        return { role, content: wholeText(content, before.messages?.[at]?.content) };
      }),
    }),
    ...(tokens && {
      tokens: tokens.map(([shared, rest], at) => {
        return shared === 0 ? rest : before.tokens![at]!.slice(0, shared).concat(rest);
      }),
    }),
  };
}

function beyond<Whole extends string | readonly number[]>(
  whole: Whole,
  before: Whole,
): Beyond<Whole> {
  const length = Math.min(whole.length, before.length);
  let shared = 0;
  while (shared < length && whole[shared] === before[shared]) shared++;
  return [shared, whole.slice(shared) as Whole];
}

function wholeText([shared, rest]: Beyond<string>, before = ""): string {
  return before.slice(0, shared) + rest;
}
