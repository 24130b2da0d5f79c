import type { ToolCall } from "../../foundation/inference.ts";
import type { CallReader } from "./call-formats.ts";

/** How calls are found in an answer. */
export interface CallReading {
  reader: CallReader;
  /** The id of a call, by its place in the answer. */
  idOf(place: number): string;
}

/** What an answer's text depends on. */
export interface AnswerTextOptions {
  /** Texts that end the answer. */
  stop: readonly string[];
  /** If the answer may call tools. */
  calls?: CallReading | undefined;
  /** Whether the text begins with its first word. Default: it may begin with white space. */
  trimsStart?: boolean;
}

/** The text of an answer in the making: without its calls, and cut before a stop text. */
export class AnswerText {
  readonly #options: AnswerTextOptions;
  readonly #longestStop: number;
  /** Of an answer that may call tools, as far as it is known to be text. */
  #text = "";
  #toolCalls: readonly ToolCall[] | undefined;
  #toldChars = 0;
  #isStopped = false;

  constructor(options: AnswerTextOptions) {
    this.#options = options;
    this.#longestStop = Math.max(0, ...options.stop.map((stop) => stop.length));
  }

  /** True if a stop text ended the answer. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  get value(): string {
    return this.#text;
  }

  /** Those of an answer that has ended. */
  get toolCalls(): readonly ToolCall[] {
    return this.#toolCalls ?? [];
  }

  /** Takes more of what the model writes. */
  push(text: string): void {
    const { calls } = this.#options;
    this.#write(calls === undefined ? text : calls.reader.push(text));
  }

  /** The answer is complete: what was not known to be text is text or a call. */
  end(): void {
    const { calls } = this.#options;
    if (this.#toolCalls !== undefined) return;
    const { text, calls: written } = calls?.reader.end() ?? { text: "", calls: [] };
    this.#write(text);
    this.#toolCalls = this.#isStopped
      ? []
      : written.map((called, place) => {
          return { id: calls!.idOf(place), type: "function", function: called };
        });
  }

  /** The text since the last call, as far as no stop text can remove it. */
  take(): string {
    const isWhole = this.#isStopped || this.#toolCalls !== undefined;
    const text = this.#text.slice(this.#toldChars, isWhole ? undefined : this.#settledEnd());
    this.#toldChars += text.length;
    return text;
  }

  /** Where an incomplete stop text may have begun; else the end. */
  #settledEnd(): number {
    const text = this.#text;
    for (let at = Math.max(0, text.length - this.#longestStop + 1); at < text.length; at++) {
      const end = text.slice(at);
      if (this.#options.stop.some((each) => each.startsWith(end))) return at;
    }
    return text.length;
  }

  #write(text: string): void {
    if (this.#isStopped) return;
    const seen = this.#text.length;
    const isStart = seen === 0 && this.#options.trimsStart === true;
    this.#text += isStart ? text.trimStart() : text;
    if (this.#longestStop > 0) this.#cutAtStop(Math.max(0, seen - this.#longestStop));
  }

  #cutAtStop(from: number): void {
    const places = this.#options.stop
      .map((stop) => (stop === "" ? -1 : this.#text.indexOf(stop, from)))
      .filter((place) => place >= 0);
    if (places.length === 0) return;
    this.#text = this.#text.slice(0, Math.min(...places));
    this.#isStopped = true;
  }
}
