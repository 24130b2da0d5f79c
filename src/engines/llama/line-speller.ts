import { SluiceError } from "../../foundation/errors.ts";
import type { SlottedLine } from "../../foundation/inference.ts";
import { candidateSpans } from "../../foundation/spans.ts";
import type { Vocabulary } from "./vocabulary.ts";

/**
 * One byte position of what may be written: which bytes may follow, and where the segment may
 * end.
 */
interface Node {
  edges: Map<number, Node>;
  /** Set where the segment may end: the start of the next one. */
  next?: Node;
  /** The whole line may end here. */
  isEnd?: boolean;
}

/** Turns text that must follow into tokens, as the model itself would cut it. */
export type Tokenize = (text: string) => readonly number[];

/** What may come next. */
export type NextTokens =
  /** These tokens and no others: nothing has to be asked of the model. */
  | { kind: "forced"; tokens: readonly number[] }
  /** One of these; line ends are among them where the line may end here. */
  | { kind: "choice"; tokens: Uint32Array }
  | { kind: "end" };

/**
 * Spells one slotted line, token by token. What may be written is a finite set of texts: the
 * literal parts of the line and, in each slot, `orElse` or a copied span. Any cut of such a text
 * into tokens is allowed, and nothing else is, so that a model can choose spans but cannot invent
 * words.
 */
export class LineSpeller {
  readonly #vocabulary: Vocabulary;
  readonly #tokenize: Tokenize;
  #states: Node[];

  /** `prefix` is written before the line, such as the space that a word wants. */
  constructor(line: SlottedLine, prefix: string, vocabulary: Vocabulary, tokenize: Tokenize) {
    this.#vocabulary = vocabulary;
    this.#tokenize = tokenize;
    this.#states = closureOf([buildLine(line, prefix)]);
  }

  /**
   * What may come next.
   *
   * @throws SluiceError `ANSWER_INVALID` when the model has no token for a byte that must come.
   */
  next(): NextTokens {
    const forced = this.#forcedTokens();
    if (forced.length > 0) return { kind: "forced", tokens: forced };
    const mayEnd = this.#states.some((node) => node.isEnd);
    const tokens = this.#allowedTokens();
    if (tokens.length === 0) {
      if (mayEnd) return { kind: "end" };
      throw new SluiceError("ANSWER_INVALID", "the model has no token for what the line needs");
    }
    if (mayEnd) tokens.push(...this.#vocabulary.lineEnds());
    return { kind: "choice", tokens: Uint32Array.from(tokens) };
  }

  /** Takes a token that `next` allowed; false when it ended the line. */
  accept(token: number): boolean {
    const bytes = this.#vocabulary.bytes(token);
    if (bytes.length === 0) return false;
    const states = stepAll(this.#states, bytes);
    if (states.length === 0) return false;
    this.#states = states;
    return true;
  }

  #allowedTokens(): number[] {
    const sorted = this.#vocabulary.sorted();
    const tokens: number[] = [];
    // Tokens in [from, to) share their first `depth` bytes, which led to `states`.
    const walk = (from: number, to: number, depth: number, states: readonly Node[]) => {
      let at = from;
      while (at < to && this.#byteAt(sorted[at]!, depth) === -1) tokens.push(sorted[at++]!);
      if (at === to) return;
      for (const byte of bytesAfter(states)) {
        const first = this.#lowerBound(sorted, at, to, depth, byte);
        const last = this.#lowerBound(sorted, first, to, depth, byte + 1);
        if (first < last) walk(first, last, depth + 1, step(states, byte));
      }
    };
    walk(0, sorted.length, 0, this.#states);
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
   * The tokens of the text that must come now, whatever the model thinks. A last token that could
   * grow (it ends in a letter, a digit or a space) is left to the model, so that words are cut as
   * the model is used to.
   */
  #forcedTokens(): readonly number[] {
    const forced = this.#forcedBytes();
    // A run may end inside a character, where two of them begin with the same byte.
    const text = new TextDecoder().decode(forced, { stream: true });
    if (text === "") return [];
    const tokens = [...this.#tokenize(text)];
    const bytes = Buffer.concat(tokens.map((token) => this.#vocabulary.bytes(token)));
    // A run that begins inside a character is no text; it is written byte by byte.
    if (!bytes.equals(forced.subarray(0, bytes.length))) return [];
    const reached = stepAll(this.#states, bytes);
    const endsLine = reached.some((node) => node.isEnd) && bytesAfter(reached).size === 0;
    if (!endsLine && /[\p{L}\p{N}\s]$/u.test(text)) tokens.pop();
    return tokens;
  }

  #forcedBytes(): Uint8Array {
    const bytes: number[] = [];
    let states: readonly Node[] = this.#states;
    while (!states.some((node) => node.isEnd)) {
      const following = [...bytesAfter(states)];
      if (following.length !== 1) break;
      bytes.push(following[0]!);
      states = step(states, following[0]!);
    }
    return Uint8Array.from(bytes);
  }
}

/** The start of everything that the line may be. */
function buildLine({ line, slots }: SlottedLine, prefix: string): Node {
  const end: Node = { edges: new Map(), isEnd: true };
  const parts = line.split(/\{([^{}]+)\}/);
  let next = end;
  // Built from the right, so that each segment knows what follows it.
  for (let at = parts.length - 1; at >= 0; at--) {
    const isSlot = at % 2 === 1;
    const slot = slots.find(({ name }) => isSlot && name === parts[at]);
    if (slot !== undefined) next = alternatives([slot.orElse, ...candidateSpans(slot)], next);
    else next = alternatives([isSlot ? `{${parts[at]}}` : parts[at]!], next);
  }
  return alternatives([prefix], next);
}

function alternatives(texts: readonly string[], next: Node): Node {
  const root: Node = { edges: new Map() };
  for (const text of texts) {
    let node = root;
    for (const byte of Buffer.from(text)) {
      let following = node.edges.get(byte);
      if (following === undefined) {
        following = { edges: new Map() };
        node.edges.set(byte, following);
      }
      node = following;
    }
    node.next = next;
  }
  return root;
}

function closureOf(nodes: Iterable<Node>): Node[] {
  const closed = new Set<Node>();
  for (const node of nodes) {
    for (let at: Node | undefined = node; at && !closed.has(at); at = at.next) closed.add(at);
  }
  return [...closed];
}

function step(states: readonly Node[], byte: number): Node[] {
  const reached: Node[] = [];
  for (const node of states) {
    const following = node.edges.get(byte);
    if (following !== undefined) reached.push(following);
  }
  return closureOf(reached);
}

function stepAll(states: Node[], bytes: Iterable<number>): Node[] {
  let reached = states;
  for (const byte of bytes) reached = step(reached, byte);
  return reached;
}

function bytesAfter(states: readonly Node[]): Set<number> {
  const bytes = new Set<number>();
  for (const node of states) for (const byte of node.edges.keys()) bytes.add(byte);
  return bytes;
}
