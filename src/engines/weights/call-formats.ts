import {
  choice,
  type Grammar,
  type GrammarNode,
  repeat,
  rule,
  sequence,
  text,
  withOwnRules,
} from "../../foundation/grammar.ts";
import { isJsonObject, jsonIn, jsonObjectIn } from "../../foundation/json.ts";
import { elementTexts, memberTexts } from "../../foundation/json-members.ts";

/** How a family of models writes calls of tools. */
export interface CallFormat {
  /** Found in the source of a chat template, it says that the template has this form. */
  sign: RegExp;
  /** The text before calls; "" if the answer is nothing but a call. */
  open: string;
  /** Another text before calls that its models may write. */
  otherOpen?: string;
  /** The text after calls; "" if nothing follows them. */
  close: string;
  /** White space that its models write within these two. */
  space: string;
  /** The member that holds the arguments. */
  member: "arguments" | "parameters";
  /** How an answer has several calls: each in `open` and `close`, as one list, or not at all. */
  several: "apart" | "list" | "none";
}

/** More special forms come first. */
const formats: readonly CallFormat[] = [
  // SmolLM2
  {
    sign: /<tool_call>(?:\s|\\n)*\[/,
    ...{ open: "<tool_call>", close: "</tool_call>", space: "" },
    ...{ member: "arguments", several: "list" },
  },
  // Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4
  {
    sign: /<tool_call>/,
    ...{ open: "<tool_call>", close: "</tool_call>", space: "\n" },
    ...{ member: "arguments", several: "apart" },
  },
  // Mistral 7B v0.3, Nemo, Small
  {
    sign: /\[TOOL_CALLS\] \[/,
    ...{ open: "[TOOL_CALLS]", close: "", space: " " },
    ...{ member: "arguments", several: "list" },
  },
  {
    sign: /\[TOOL_CALLS\]/,
    ...{ open: "[TOOL_CALLS]", close: "", space: "" },
    ...{ member: "arguments", several: "list" },
  },
  // Phi 4 mini
  {
    sign: /<\|\/tool_call\|>/,
    ...{ open: "<|tool_call|>", close: "<|/tool_call|>", space: "" },
    ...{ member: "arguments", several: "apart" },
  },
  // Granite 3
  {
    sign: /<\|tool_call\|>/,
    ...{ open: "<|tool_call|>", close: "", space: "" },
    ...{ member: "arguments", several: "list" },
  },
  // Nemotron
  {
    sign: /<TOOLCALL>/,
    ...{ open: "<TOOLCALL>", close: "</TOOLCALL>", space: "" },
    ...{ member: "arguments", several: "list" },
  },
  // Llama 3.1, 3.2 and 3.3
  {
    sign: /"name": [^{}]*"parameters": /,
    ...{ open: "", otherOpen: "<|python_tag|>", close: "", space: "" },
    ...{ member: "parameters", several: "none" },
  },
];

/** Signs of forms that hold no JSON: Qwen 3 Coder, GLM, newer ones of Mistral. */
const unread = /<function=|<arg_key>|\[ARGS\]/;

/** The form of calls that a chat template shows; undefined if it is none of the known ones. */
export function callFormatOf(source: string): CallFormat | undefined {
  return unread.test(source) ? undefined : formats.find(({ sign }) => sign.test(source));
}

/** The texts with which calls begin. */
export function opensOf({ open, otherOpen }: CallFormat): string[] {
  return [open, otherOpen ?? ""].filter((text) => text !== "");
}

/** A model may write a little white space before its JSON. */
const blanks = repeat(choice([text(" "), text("\n")]), 0, 2);

/**
 * What a model may write between `open` and `close`: one call of one of the tools, or a list.
 *
 * @param argumentGrammars by the names of the tools that may be called.
 */
export function callsGrammar(
  { member, several }: CallFormat,
  argumentGrammars: Readonly<Record<string, Grammar>>,
  isParallel: boolean,
): Grammar {
  const rules: Record<string, GrammarNode> = {};
  const calls = Object.entries(argumentGrammars).map(([name, grammar], at) => {
    const own = withOwnRules(grammar, String(at));
    Object.assign(rules, own.rules);
    const beginning = text(`{"name": ${JSON.stringify(name)}, "${member}": `);
    return sequence(beginning, own.root, text("}"));
  });
  const call = rule("call");
  rules.call = choice(calls);
  if (several !== "list") return { root: sequence(blanks, call), rules };
  const more = repeat(sequence(text(", "), call), 0, isParallel ? undefined : 0);
  return { root: sequence(blanks, text("["), call, more, text("]")), rules };
}

/** A call as the model wrote it; the arguments are the text of a JSON object. */
export interface WrittenCall {
  name: string;
  arguments: string;
}

/**
 * Divides an answer, as it comes, into text and calls. What begins as a call but is none of a known
 * tool is text, as with other servers: the model may have written it for the reader.
 */
export class CallReader {
  readonly #format: CallFormat;
  readonly #names: ReadonlySet<string>;
  readonly #calls: WrittenCall[] = [];
  /** What is not yet text or a call. */
  #held = "";
  /** The text that opened the call in `#held`; undefined outside of calls. */
  #opened: string | undefined;
  /** Where the search for the end of that call goes on. */
  #searched = 0;
  /** True while the answer may be nothing but a call. */
  #mayBeBare: boolean;

  /** @param names of the tools that may be called. */
  constructor(format: CallFormat, names: Iterable<string>) {
    this.#format = format;
    this.#names = new Set(names);
    this.#mayBeBare = format.open === "";
  }

  /** Takes more of the answer; returns what is now known to be text. */
  push(more: string): string {
    this.#held += more;
    let known = "";
    for (let before = -1; before !== this.#held.length; ) {
      before = this.#held.length;
      if (this.#opened === undefined) known += this.#readText();
      else this.#readCall();
    }
    return known;
  }

  /** The rest of the text, and all calls that are whole. */
  end(): { text: string; calls: readonly WrittenCall[] } {
    const held = this.#held;
    this.#held = "";
    const wasOpened = this.#opened !== undefined;
    const rest = wasOpened && this.#take(held) ? "" : (this.#opened ?? "") + held;
    // A further call that was cut off is neither: whoever reads the answer carries out the others.
    const isLost = wasOpened || rest.trim() === "";
    return { text: this.#calls.length > 0 && isLost ? "" : rest, calls: this.#calls };
  }

  #readText(): string {
    if (this.#mayBeBare) {
      const state = this.#bareState();
      if (state === "maybe") return "";
      this.#mayBeBare = false;
      if (state === "yes") {
        this.#opened = "";
        return "";
      }
    }
    const opens = opensOf(this.#format);
    const places = opens.map((open) => ({ open, at: this.#held.indexOf(open) }));
    const [first] = places.filter(({ at }) => at >= 0).sort((a, b) => a.at - b.at);
    if (first === undefined) return this.#release(settledEnd(this.#held, opens));
    const before = this.#release(first.at);
    const known = before.trimEnd();
    this.#opened = before.slice(known.length) + this.#release(first.open.length);
    this.#searched = 0;
    return known;
  }

  #release(end: number): string {
    const known = this.#held.slice(0, end);
    this.#held = this.#held.slice(end);
    return known;
  }

  /** Whether the answer begins with `{"name": "…"` and a known name, whatever the white space. */
  #bareState(): "yes" | "maybe" | "no" {
    const compact = this.#held.replace(/\s+/g, "");
    for (const name of this.#names) {
      const beginning = `{"name":${JSON.stringify(name)}`;
      if (compact.startsWith(beginning)) return "yes";
      if (beginning.startsWith(compact)) return "maybe";
    }
    return "no";
  }

  /** Takes the call at the beginning, if all of it has come. */
  #readCall(): void {
    const { close } = this.#format;
    if (close === "") return;
    for (;;) {
      const at = this.#held.indexOf(close, this.#searched);
      if (at < 0) {
        this.#searched = Math.max(this.#searched, this.#held.length - close.length + 1);
        return;
      }
      this.#searched = at + 1;
      // Arguments may hold the closing text themselves.
      if (!this.#take(this.#held.slice(0, at))) continue;
      this.#release(at + close.length);
      this.#opened = undefined;
      return;
    }
  }

  #take(body: string): boolean {
    const calls = callsIn(body, this.#names);
    if (calls !== undefined) this.#calls.push(...calls);
    return calls !== undefined;
  }
}

/** Where an opening text may have begun, or the white space before it. */
function settledEnd(held: string, opens: readonly string[]): number {
  const longest = Math.max(0, ...opens.map((open) => open.length));
  let end = held.length;
  for (let at = Math.max(0, held.length - longest + 1); at < held.length; at++) {
    if (!opens.some((open) => open.startsWith(held.slice(at)))) continue;
    end = at;
    break;
  }
  return held.slice(0, end).trimEnd().length;
}

/** The calls in a text; undefined if it is not JSON of calls of known tools. */
function callsIn(body: string, names: ReadonlySet<string>): WrittenCall[] | undefined {
  const value = jsonIn(body);
  const texts = Array.isArray(value) ? elementTexts(body) : [body];
  const values = Array.isArray(value) ? value : [value];
  const calls = values.map((each, at): WrittenCall | undefined => {
    if (!isJsonObject(each)) return undefined;
    if (typeof each.name !== "string" || !names.has(each.name)) return undefined;
    const members = memberTexts(texts[at]!);
    const written = members.get("arguments") ?? members.get("parameters") ?? "{}";
    const read = jsonIn(written);
    // Some models write them as a text of JSON.
    const object = typeof read === "string" ? read : written;
    return jsonObjectIn(object) ? { name: each.name, arguments: object } : undefined;
  });
  return calls.every((call) => call !== undefined) ? calls : undefined;
}
