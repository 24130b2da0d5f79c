import type { TextMessage } from "../foundation/inference.ts";
import type { JsonObject } from "../foundation/json.ts";
import type { RowOrigin, RowRequest } from "./row-request.ts";
import type { AskedMessages } from "./types/turns.ts";

/** Parts of a request that are the same for all requests of its prompt, and the row. */
type PromptsOwn = "parameters" | "onTooLong" | "slottedLine" | "structure" | "row";

/** The parts of a request that are its own, without the sources of its answer. */
export type OwnParts = Omit<RowRequest, PromptsOwn>;

/**
 * A request as JSON, without what its prompt determines. Its words are stored as the difference
 * from the request before it.
 */
export interface PreparedRequest
  extends Omit<OwnParts, keyof KeptWords | "origin">,
    Omit<RowOrigin, "index">,
    KeptWords {
  /** The sources of its answer, slot by slot, as indexes into the row's `texts`. */
  sources?: readonly number[];
  /** For a turn of a conversation, instead of words: the messages that the turn before lacks. */
  turn?: AskedMessages;
}

/** The requests of a row as JSON, from which they can be restored without rendering. */
export interface PreparedRow {
  requests: readonly PreparedRequest[];
  /** Texts that answers copy from, each text once. */
  texts?: readonly string[];
}

/** Converts requests of a row to JSON and back. */
export interface RequestKeeper {
  /** @param requests all requests of a row, as rendered; they may have `tokens`. */
  keep(requests: readonly RowRequest[]): PreparedRow;
  /** The requests as rendering the row at `index` would make them, with the stored tokens. */
  restore(kept: PreparedRow, index: number, row: JsonObject, raw?: string): RowRequest[];
}

/** What is needed of a prompt to store its requests. */
export interface KeepablePrompt {
  /** The messages of a request that is a turn of a conversation; else undefined. */
  askOf(request: RowRequest): AskedMessages | undefined;
  /** Makes a request again. @param ask for a turn, which has no words yet. */
  again(own: OwnParts, sources: readonly string[], ask: AskedMessages | undefined): RowRequest;
}

/** Converts requests of prompts, which it finds by name. */
export class RowKeeper implements RequestKeeper {
  readonly #prompts: ReadonlyMap<string, KeepablePrompt>;

  constructor(prompts: ReadonlyMap<string, KeepablePrompt>) {
    this.#prompts = prompts;
  }

  keep(requests: readonly RowRequest[]): PreparedRow {
    const numbers = new Map<string, number>();
    const numberOf = (text: string) => {
      if (!numbers.has(text)) numbers.set(text, numbers.size);
      return numbers.get(text)!;
    };
    const kept = requests.map((request, at): PreparedRequest => {
      const { messages, prompt, tokens, origin, ...own } = ownParts(request);
      const { index: _, ...place } = origin;
      const turn = this.#turnOf(request, requests);
      const words = turn ? { tokens } : ({ messages, prompt, tokens } as Known<Words>);
      const slots = request.slottedLine?.slots ?? request.structure?.copies;
      return {
        ...place,
        ...own,
        ...keptWords(words, (requests[at - 1] ?? {}) as Words),
        ...(turn && { turn }),
        ...(slots && { sources: slots.map(({ source }) => numberOf(source)) }),
      };
    });
    return { requests: kept, ...(numbers.size > 0 && { texts: [...numbers.keys()] }) };
  }

  restore({ requests: kept, texts = [] }: PreparedRow, index: number): RowRequest[] {
    const requests: RowRequest[] = [];
    for (const { sources = [], turn, ...parts } of kept) {
      const { promptName, element, number, after, messages, prompt, tokens, ...own } = parts;
      const origin: RowOrigin = { index, promptName };
      if (element !== undefined) origin.element = element;
      if (number !== undefined) origin.number = number;
      if (after !== undefined) origin.after = after;
      const words = restoredWords({ messages, prompt, tokens }, (requests.at(-1) ?? {}) as Words);
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

/** A text or list as the difference from another: length of the common beginning, and the rest. */
type Beyond<Whole> = readonly [shared: number, rest: Whole];

/** The words of a request, for the engine: requests that are kept have text alone. */
type Words = Pick<RowRequest, "prompt" | "tokens"> & { messages?: readonly TextMessage[] };

type Known<Parts> = { [Name in keyof Parts]: Parts[Name] | undefined };

/** The words as JSON, as the difference from the words of another request. */
interface KeptWords {
  prompt?: Beyond<string>;
  messages?: readonly { role: TextMessage["role"]; content: Beyond<string> }[];
  tokens?: readonly Beyond<readonly number[]>[];
}

/** Stores words as a difference: requests of one row often begin with the same examples. */
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

/** The words from their difference to the same other request. */
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
