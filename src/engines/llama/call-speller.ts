import { type CallFormat, opensOf } from "../weights/call-formats.ts";
import type { SamplerConfig } from "./node-llama-cpp.ts";
import { noneOf, onlyTokens } from "./sampling.ts";
import type { Fit, NextTokens, Speller, Spelling } from "./speller.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** How an answer may call tools. */
export interface CallSpellerOptions {
  format: CallFormat;
  vocabulary: Vocabulary;
  /** The bytes of special tokens in the texts of the format. */
  formatBytes: ReadonlyMap<number, Uint8Array>;
  /** Tokens of a text of the format, special tokens included. */
  tokenizeFormat(text: string): readonly number[];
  /** Makes a speller of what stands between the texts before and after calls. */
  callsSpeller(): Speller;
  /** Whether the answer must be a call. */
  isForced: boolean;
  /** Whether one answer may have several calls. */
  isParallel: boolean;
  /** The form of an answer that calls nothing; absent if it is free text. */
  answer?: Speller;
  /** Whether free text goes on past the model's end. */
  ignoresEnds: boolean;
}

/** A further call needs this many tokens at least. */
const leastCallTokens = 24;
/** The beginning of an answer that may be nothing but a call is shorter. */
const maxBareBytes = 256;

/**
 * Spells an answer that may call tools. Text before calls is free; once a call has begun, only a
 * call of one of the tools can be written, with arguments that its grammar allows.
 */
export class CallSpeller implements Spelling {
  readonly #options: CallSpellerOptions;
  readonly #opens: readonly string[];
  readonly #opening: readonly number[];
  readonly #reopening: readonly number[];
  readonly #closing: readonly number[];
  #state: "start" | "text" | "call" | "between" | "end" = "start";
  /** Tokens that come next. */
  #forced: readonly number[] = [];
  #calls: Speller | undefined;
  /** The end of the text so far, where a call may have begun; its bytes as Latin-1. */
  #seen = "";
  #mayBeBare: boolean;

  constructor(options: CallSpellerOptions) {
    const { format, isForced, tokenizeFormat } = options;
    const { open, close, space } = format;
    this.#options = options;
    this.#opens = opensOf(format);
    this.#opening = tokenizeFormat(open + space);
    this.#reopening = tokenizeFormat(space + open + space);
    this.#closing = close === "" ? [] : tokenizeFormat(space + close);
    this.#mayBeBare = open === "";
    if (isForced) this.#open(this.#opening);
  }

  get isFree(): boolean {
    return this.#isText && this.#options.answer === undefined;
  }

  get #isText(): boolean {
    return this.#state === "start" || this.#state === "text";
  }

  next(): NextTokens {
    const { vocabulary, answer, ignoresEnds } = this.#options;
    if (this.#state === "call" && this.#forced.length === 0) {
      const next = this.#calls!.next();
      if (next.kind !== "end") return next;
      this.#close();
    }
    if (this.#forced.length > 0) return { kind: "forced", tokens: this.#forced };
    if (this.#state === "end") return { kind: "end" };
    if (this.#state === "between") {
      return { kind: "choice", settings: only([...vocabulary.ends(), this.#reopening[0]!]) };
    }
    if (answer !== undefined && this.#state === "text") return answer.next();
    if (ignoresEnds && answer === undefined) {
      return { kind: "choice", settings: noneOf(vocabulary.ends()) };
    }
    return { kind: "open" };
  }

  settings(): Partial<SamplerConfig> {
    if (this.#state === "call") return this.#calls!.settings();
    const { answer, tokenizeFormat } = this.#options;
    if (answer === undefined) return only([tokenizeFormat(this.#restOfOpen())[0]!]);
    const settings = answer.settings();
    return this.#opensAtStart(this.#opening[0])
      ? alsoAllowing(settings, this.#opening[0]!)
      : settings;
  }

  fit(token: number, left: number): Fit {
    const { answer } = this.#options;
    if (this.#state === "call") return this.#calls!.fit(token, left - this.#closing.length);
    if (this.#state === "between") {
      return token === this.#reopening[0] && left < leastCallTokens ? "no-room" : "fits";
    }
    if (answer === undefined) return this.#begun(token) === "refused" ? "refused" : "fits";
    return this.#opensAtStart(token) ? "fits" : answer.fit(token, left);
  }

  closing(): readonly number[] {
    const { answer } = this.#options;
    if (this.#isText) return answer?.closing() ?? [];
    if (this.#state !== "call") return this.#forced;
    return [...this.#forced, ...this.#calls!.closing(), ...this.#closing];
  }

  accept(token: number): boolean {
    if (this.#forced.length > 0) {
      this.#forced = this.#forced.slice(1);
      return true;
    }
    if (this.#isText) return this.#acceptText(token);
    if (this.#state === "call") return this.#calls!.accept(token);
    if (token !== this.#reopening[0]) return false;
    this.#open(this.#reopening.slice(1));
    return true;
  }

  #acceptText(token: number): boolean {
    const { vocabulary, answer, ignoresEnds } = this.#options;
    if (this.#opensAtStart(token)) {
      this.#open(this.#opening.slice(1));
      return true;
    }
    this.#state = "text";
    if (answer !== undefined) return answer.accept(token);
    if (vocabulary.isEnd(token)) return ignoresEnds;
    const begun = this.#begun(token);
    if (begun !== undefined && begun !== "refused") {
      this.#calls = begun;
      this.#state = "call";
    }
    this.#note(this.#textOf(token));
    return true;
  }

  /** Whether a token begins a call in place of an answer that has a form. */
  #opensAtStart(token: number | undefined): boolean {
    const { answer } = this.#options;
    if (answer === undefined || this.#state !== "start" || token === undefined) return false;
    return token === this.#opening[0];
  }

  /** Begins a call, after these tokens. */
  #open(tokens: readonly number[]): void {
    this.#forced = tokens;
    this.#calls = this.#callsAfter(this.#options.format.space);
    this.#state = "call";
  }

  #close(): void {
    const { format, isParallel } = this.#options;
    this.#forced = this.#closing;
    this.#state = isParallel && format.several === "apart" ? "between" : "end";
  }

  /** The speller of the call that a token begins; `refused` if no call can go on like that. */
  #begun(token: number): Speller | "refused" | undefined {
    const text = this.#seen + this.#textOf(token);
    for (const open of this.#opens) {
      const at = text.indexOf(open);
      if (at >= 0) return this.#callsAfter(text.slice(at + open.length)) ?? "refused";
    }
    const isNamed = this.#mayBeBare && /^\s*\{"name": "[^"]*"/.test(text);
    return isNamed ? this.#callsAfter(text.trimStart()) : undefined;
  }

  #callsAfter(text: string): Speller | undefined {
    const speller = this.#options.callsSpeller();
    return speller.skip(Buffer.from(text, "latin1")) ? speller : undefined;
  }

  #note(piece: string): void {
    const text = this.#seen + piece;
    this.#mayBeBare &&= text.length < maxBareBytes && /^\s*(\{|$)/.test(text);
    const kept = Math.max(0, ...this.#opens.map((open) => open.length - 1));
    this.#seen = this.#mayBeBare ? text : text.slice(Math.max(0, text.length - kept));
  }

  /** What is left of an opening text that the text so far has begun. */
  #restOfOpen(): string {
    const rests = this.#opens.map((open) => {
      let length = Math.min(open.length - 1, this.#seen.length);
      while (length > 0 && !this.#seen.endsWith(open.slice(0, length))) length--;
      return open.slice(length);
    });
    return rests.reduce((a, b) => (b.length < a.length ? b : a));
  }

  #textOf(token: number): string {
    const { formatBytes, vocabulary } = this.#options;
    return Buffer.from(formatBytes.get(token) ?? vocabulary.bytes(token)).toString("latin1");
  }
}

/** The bytes of the special tokens in a format's texts, which other answers do not show. */
export function formatBytes(
  format: CallFormat,
  vocabulary: Vocabulary,
  tokenize: (text: string) => readonly number[],
): ReadonlyMap<number, Uint8Array> {
  const tokens = [...opensOf(format), format.close].flatMap(tokenize);
  const special = tokens.filter((token) => vocabulary.bytes(token).length === 0);
  return new Map(special.map((token) => [token, Buffer.from(vocabulary.text(token))]));
}

function only(tokens: readonly number[]): Partial<SamplerConfig> {
  return onlyTokens(Uint32Array.from(tokens));
}

/** The same settings, with one more allowed token. */
function alsoAllowing(settings: Partial<SamplerConfig>, token: number): Partial<SamplerConfig> {
  const { tokenBiasKeys = new Uint32Array(), tokenBiasValues = [] } = settings;
  if ((tokenBiasValues[0] ?? 0) > 0) return only([...tokenBiasKeys, token]);
  return noneOf(tokenBiasKeys.filter((key) => key !== token));
}
