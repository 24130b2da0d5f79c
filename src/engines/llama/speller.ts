import { SluiceError } from "../../foundation/errors.ts";
import type { GrammarAutomaton, GrammarState } from "./grammar-automaton.ts";
import type { SamplerConfig } from "./node-llama-cpp.ts";
import { noneOf, onlyTokens } from "./sampling.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Turns forced text into tokens, as the model itself would cut it. */
export type Tokenize = (text: string) => readonly number[];

export type NextTokens =
  /** These tokens and no others: the model is not consulted. */
  | { kind: "forced"; tokens: readonly number[] }
  /** One that these settings of the sampler allow. */
  | { kind: "choice"; settings: Partial<SamplerConfig> }
  /** Too many to list: choose any, then check whether it `fits`. */
  | { kind: "open" }
  | { kind: "end" };

/** A chosen token's relation to the allowed texts. */
export type Fit = "fits" | "refused" | "no-room";

/** Decides which tokens an answer may have. */
export interface Spelling {
  /** Whether any text may come now: penalties apply as in other answers. */
  readonly isFree: boolean;
  /**
   * The possible next tokens.
   *
   * @throws SluiceError `ANSWER_INVALID` if the model has no token for the forced text.
   */
  next(): NextTokens;
  /** The settings of the sampler that allow only valid next tokens. */
  settings(): Partial<SamplerConfig>;
  /** Whether a token is allowed now, with room for an end of the text within `left` tokens. */
  fit(token: number, left: number): Fit;
  /** The tokens to the text's nearest end. */
  closing(): readonly number[];
  /** Takes a fitting token; false if it ended the text. */
  accept(token: number): boolean;
}

/** Up to this number of different next bytes, the allowed tokens are listed before the choice. */
const maxListedBytes = 16;
/** Tokens kept free beyond a fitting end: the model may cut the text differently. */
const spareTokens = 2;

/**
 * Spells one text of a grammar, token by token. Every cut of such a text into tokens is allowed,
 * and nothing else. Forced text is written without consulting the model.
 */
export class Speller implements Spelling {
  readonly isFree = false;
  readonly #automaton: GrammarAutomaton;
  readonly #vocabulary: Vocabulary;
  readonly #tokenize: Tokenize;
  readonly #ends: readonly number[];
  #state: GrammarState;

  /** `ends` are the tokens with which a model may end the text. */
  constructor(
    automaton: GrammarAutomaton,
    vocabulary: Vocabulary,
    tokenize: Tokenize,
    ends: readonly number[],
  ) {
    this.#automaton = automaton;
    this.#vocabulary = vocabulary;
    this.#tokenize = tokenize;
    this.#ends = ends;
    this.#state = automaton.start;
  }

  next(): NextTokens {
    const forced = this.#forcedTokens();
    if (forced.length > 0) return { kind: "forced", tokens: forced };
    const { frames, isEnd } = this.#state;
    if (frames.length === 0 && isEnd) return { kind: "end" };
    return nextByteCount(this.#state) > maxListedBytes
      ? { kind: "open" }
      : { kind: "choice", settings: this.settings() };
  }

  settings(): Partial<SamplerConfig> {
    const known = settingsOf.get(this.#state);
    if (known !== undefined) return known;
    const tokens = this.#allowedTokens();
    if (tokens.length === 0) {
      throw new SluiceError("ANSWER_INVALID", "the model has no token for what must come");
    }
    const { size } = this.#vocabulary;
    const settings =
      tokens.length * 2 < size
        ? onlyTokens(Uint32Array.from(tokens))
        : noneOf(othersThan(new Set(tokens), size));
    settingsOf.set(this.#state, settings);
    return settings;
  }

  fit(token: number, left: number): Fit {
    const bytes = this.#vocabulary.bytes(token);
    if (bytes.length === 0) return this.#state.isEnd ? "fits" : "refused";
    const state = this.#automaton.stepAll(this.#state, bytes);
    if (state === undefined) {
      return this.#state.isEnd && this.#ends.includes(token) ? "fits" : "refused";
    }
    const room = left - 1 - spareTokens;
    if (state.leastBytes <= room || this.#closingOf(state).length <= room) return "fits";
    // A text that never had room for an end is written as far as it goes.
    return this.#closingOf(this.#state).length > left ? "fits" : "no-room";
  }

  closing(): readonly number[] {
    return this.#closingOf(this.#state);
  }

  /** Takes text that is written already; false if it is not allowed. */
  skip(bytes: Uint8Array): boolean {
    const state = this.#automaton.stepAll(this.#state, bytes);
    if (state !== undefined) this.#state = state;
    return state !== undefined;
  }

  accept(token: number): boolean {
    const bytes = this.#vocabulary.bytes(token);
    if (bytes.length === 0) return false;
    const state = this.#automaton.stepAll(this.#state, bytes);
    if (state === undefined) return false;
    this.#state = state;
    return true;
  }

  #closingOf(state: GrammarState): readonly number[] {
    const bytes = Uint8Array.from(this.#automaton.closing(state));
    const tokens = this.#tokenize(new TextDecoder().decode(bytes));
    const written = Buffer.concat(tokens.map((token) => this.#vocabulary.bytes(token)));
    // An end that begins inside a character is not valid text; it is written byte by byte.
    return written.equals(bytes) ? tokens : Array.from(bytes, (byte) => this.#byteToken(byte));
  }

  #byteToken(byte: number): number {
    const token = this.#vocabulary.byteToken(byte);
    if (token !== undefined) return token;
    throw new SluiceError("ANSWER_INVALID", "the model has no token for a byte that must come");
  }

  #allowedTokens(): number[] {
    const sorted = this.#vocabulary.sorted();
    const tokens: number[] = this.#state.isEnd ? [...this.#ends] : [];
    // Tokens in [from, to) share their first `depth` bytes, which led to `state`.
    const walk = (from: number, to: number, depth: number, state: GrammarState) => {
      let at = from;
      while (at < to && this.#byteAt(sorted[at]!, depth) === -1) tokens.push(sorted[at++]!);
      while (at < to) {
        const byte = this.#byteAt(sorted[at]!, depth);
        const last = this.#lowerBound(sorted, at, to, depth, byte + 1);
        const next = this.#automaton.step(state, byte);
        if (next !== undefined) walk(at, last, depth + 1, next);
        at = last;
      }
    };
    walk(0, sorted.length, 0, this.#state);
    return tokens;
  }

  #byteAt(token: number, depth: number): number {
    return this.#vocabulary.bytes(token)[depth] ?? -1;
  }

  #lowerBound(sorted: Int32Array, from: number, to: number, depth: number, byte: number): number {
    let low = from;
    let high = to;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#byteAt(sorted[middle]!, depth) < byte) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * The tokens of the forced text. A last token that could grow (it ends in a letter, a digit or a
   * space) is left to the model, so that words are cut in the model's usual way.
   */
  #forcedTokens(): readonly number[] {
    const { bytes: forced, state: reached } = this.#forcedBytes();
    // A run may end inside a character, where two of them begin with the same byte.
    const text = new TextDecoder().decode(forced, { stream: true });
    if (text === "") return [];
    const tokens = [...this.#tokenize(text)];
    const bytes = Buffer.concat(tokens.map((token) => this.#vocabulary.bytes(token)));
    // A text that begins inside a character is not valid; it is written byte by byte.
    if (!bytes.equals(forced.subarray(0, bytes.length))) return [];
    const isWhole = bytes.length === forced.length && reached.isEnd && reached.frames.length === 0;
    if (!isWhole && /[\p{L}\p{N}\s]$/u.test(text)) tokens.pop();
    return tokens;
  }

  #forcedBytes(): { bytes: Uint8Array; state: GrammarState } {
    const bytes: number[] = [];
    let state = this.#state;
    while (!state.isEnd) {
      const byte = onlyByte(state);
      if (byte === undefined) break;
      bytes.push(byte);
      state = this.#automaton.step(state, byte)!;
    }
    return { bytes: Uint8Array.from(bytes), state };
  }
}

/** Settings by state: answers to the same schema pass the same states. */
const settingsOf = new WeakMap<GrammarState, Partial<SamplerConfig>>();

function othersThan(tokens: ReadonlySet<number>, size: number): Uint32Array {
  const others = new Uint32Array(size - tokens.size);
  for (let token = 0, at = 0; token < size; token++) if (!tokens.has(token)) others[at++] = token;
  return others;
}

/** The forced next byte, or undefined if several are possible. */
function onlyByte({ frames }: GrammarState): number | undefined {
  let only: number | undefined;
  for (const { part } of frames) {
    const [first, last] =
      part.kind === "range" ? [part.from, part.to] : [...part.edges.keys(), undefined];
    const isSingle = part.kind === "range" ? first === last : part.edges.size === 1;
    if (!isSingle || (only !== undefined && only !== first)) return undefined;
    only = first;
  }
  return only;
}

/** Roughly how many next bytes are possible. */
function nextByteCount({ frames }: GrammarState): number {
  return frames.reduce(
    (count, { part }) =>
      count + (part.kind === "range" ? part.to - part.from + 1 : part.edges.size),
    0,
  );
}
