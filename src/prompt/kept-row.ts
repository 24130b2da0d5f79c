import type { TextMessage } from "../foundation/inference.ts";
import type { JsonObject } from "../foundation/json.ts";
import type { RowOrigin, RowRequest } from "./row-request.ts";
import type { AskedMessages } from "./types/turns.ts";

/** What follows from the prompt of a request, or is its row. */
type PromptsOwn = "parameters" | "onTooLong" | "slottedLine" | "structure" | "row";

/** What a request has of its own, other than what its answer copies from. */
export type OwnParts = Omit<RowRequest, PromptsOwn>;

/**
 * A request as JSON, without what follows from its prompt. Its words are what they have beyond
 * those of the request before it.
 */
export interface KeptRequest
  extends Omit<OwnParts, keyof KeptWords | "origin">,
    Omit<RowOrigin, "index">,
    KeptWords {
  /** What its answer copies from, slot by slot: numbers in the row's `texts`. */
  sources?: readonly number[];
  /**
   * In place of words, in a conversation that is asked turn by turn: the messages that it adds to
   * those of the turn before.
   */
  turn?: AskedMessages;
}

/** The requests of a row as JSON, from which they can be made again without rendering. */
export interface KeptRow {
  requests: readonly KeptRequest[];
  /** Texts that answers copy from, each once. */
  texts?: readonly string[];
}

/** Turns requests of a row into JSON and back. */
export interface RequestKeeper {
  /** @param requests all those of a row, as they were rendered; they may have `tokens`. */
  keep(requests: readonly RowRequest[]): KeptRow;
  /** Them again, as rendering the row of that index makes them, with the tokens that were kept. */
  restore(kept: KeptRow, index: number, row: JsonObject, raw?: string): RowRequest[];
}

/** What keeping needs of a prompt. */
export interface KeepablePrompt {
  /** What a request asks that is a turn of a conversation. */
  askOf(request: RowRequest): AskedMessages | undefined;
  /** A request again. @param ask of a turn, which has no words yet. */
  again(own: OwnParts, sources: readonly string[], ask: AskedMessages | undefined): RowRequest;
}

/** Keeps requests of prompts, which it knows by their names. */
export class RowKeeper implements RequestKeeper {
  readonly #prompts: ReadonlyMap<string, KeepablePrompt>;

  constructor(prompts: ReadonlyMap<string, KeepablePrompt>) {
    this.#prompts = prompts;
  }

  keep(requests: readonly RowRequest[]): KeptRow {
    const numbers = new Map<string, number>();
    const numberOf = (text: string) => {
      if (!numbers.has(text)) numbers.set(text, numbers.size);
      return numbers.get(text)!;
    };
    const kept = requests.map((request, at): KeptRequest => {
      const { messages, prompt, tokens, origin, ...own } = ownParts(request);
      const { index: _, ...place } = origin;
      const turn = this.#turnOf(request, requests);
      const words = turn ? { tokens } : { messages, prompt, tokens };
      const slots = request.slottedLine?.slots ?? request.structure?.copies;
      return {
        ...place,
        ...own,
        ...keptWords(words, requests[at - 1] ?? {}),
        ...(turn && { turn }),
        ...(slots && { sources: slots.map(({ source }) => numberOf(source)) }),
      };
    });
    return { requests: kept, ...(numbers.size > 0 && { texts: [...numbers.keys()] }) };
  }

  restore({ requests: kept, texts = [] }: KeptRow, index: number): RowRequest[] {
    const requests: RowRequest[] = [];
    for (const { sources = [], turn, ...parts } of kept) {
      const { promptName, element, number, after, messages, prompt, tokens, ...own } = parts;
      const origin: RowOrigin = { index, promptName };
      if (element !== undefined) origin.element = element;
      if (number !== undefined) origin.number = number;
      if (after !== undefined) origin.after = after;
      const words = restoredWords({ messages, prompt, tokens }, requests.at(-1) ?? {});
      const ask = turn && [...this.#askBefore(origin, requests), ...turn];
      const copied = sources.map((number) => texts[number]!);
      const known = this.#prompts.get(promptName)!;
      requests.push(known.again({ origin, ...words, ...own }, copied, ask));
    }
    return requests;
  }

  #turnOf(request: RowRequest, requests: readonly RowRequest[]): AskedMessages | undefined {
    const ask = this.#askOf(request);
    return ask?.slice(this.#askBefore(request.origin, requests).length);
  }

  #askBefore({ after }: RowOrigin, requests: readonly RowRequest[]): AskedMessages {
    return after === undefined ? [] : this.#askOf(requests[after]!)!;
  }

  #askOf(request: RowRequest): AskedMessages | undefined {
    return this.#prompts.get(request.origin.promptName)!.askOf(request);
  }
}

function ownParts(request: RowRequest): OwnParts {
  const { parameters: _parameters, onTooLong: _policy, ...asked } = request;
  const { slottedLine: _line, structure: _structure, row: _row, ...own } = asked;
  return own;
}

/** A text or a list as what it has beyond another one: how much it begins alike, and the rest. */
type Beyond<Whole> = readonly [shared: number, rest: Whole];

/** What an engine reads of a request. */
type Words = Pick<RowRequest, "prompt" | "messages" | "tokens">;

type Known<Parts> = { [Name in keyof Parts]: Parts[Name] | undefined };

/** The same as JSON, as what it has beyond the words of another request. */
interface KeptWords {
  prompt?: Beyond<string>;
  messages?: readonly { role: TextMessage["role"]; content: Beyond<string> }[];
  tokens?: readonly Beyond<readonly number[]>[];
}

/** Makes words short: requests of one row often begin with the same examples. */
function keptWords({ prompt, messages, tokens }: Known<Words>, before: Words): KeptWords {
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
function restoredWords({ prompt, messages, tokens }: Known<KeptWords>, before: Words): Words {
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
