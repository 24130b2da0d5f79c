import type { Grammar, GrammarNode } from "../../foundation/grammar.ts";

/** A part of a grammar, in bytes. Parts are compared by identity. */
type Part = TextPart | RangePart | SequencePart | ChoicePart | RepeatPart | RulePart;

/** Texts with common beginnings; this is one place in all of them. */
interface TextPart {
  kind: "text";
  edges: Map<number, TextPart>;
  /** Fewest bytes to an end of one of them; 0 if one ends here. */
  least: number;
}
interface RangePart extends ByteRange {
  kind: "range";
}
interface SequencePart {
  kind: "sequence";
  first: Part;
  rest: SequencePart | undefined;
}
interface ChoicePart {
  kind: "choice";
  items: readonly Part[];
}
interface RepeatPart {
  kind: "repeat";
  item: Part;
  min: number;
  max: number;
  /** The same once less, made when it is needed. */
  less?: RepeatPart;
}
interface RulePart {
  kind: "rule";
  name: string;
}

/** The rest to write: a part, and the following frames. */
interface Frame<SomePart extends Part = Part> {
  readonly id: number;
  readonly part: SomePart;
  readonly rest: Frame | undefined;
  /** Fewest bytes that it takes. */
  readonly least: number;
}

/** A frame that begins with a byte. */
type Leaf = Frame<TextPart | RangePart>;

/** A place in the texts of a grammar. Equal places are one object. */
export interface GrammarState {
  /** The text may end here. */
  readonly isEnd: boolean;
  /** Fewest bytes to an end. */
  readonly leastBytes: number;
  readonly frames: readonly Leaf[];
  readonly following: Map<number, GrammarState | undefined>;
}

/**
 * Recognises the texts of a grammar byte by byte. States are made when they are first reached and
 * kept, so that the common parts of many answers are computed once.
 */
export class GrammarAutomaton {
  readonly start: GrammarState;
  readonly #rules = new Map<string, Part>();
  readonly #frames = new Map<Part, Map<Frame | undefined, Frame>>();
  readonly #states = new Map<string, GrammarState>();
  readonly #least = new Map<Part, number>();
  #areRulesMeasured = false;
  #frameCount = 0;

  constructor({ root, rules }: Grammar) {
    for (const [name, node] of Object.entries(rules)) this.#rules.set(name, compile(node));
    this.#measureRules();
    this.start = this.#stateOf([this.#frame(compile(root), undefined)]);
  }

  /** States made so far. */
  get size(): number {
    return this.#states.size;
  }

  /** The state after one more byte, or undefined if the byte is not allowed. */
  step(state: GrammarState, byte: number): GrammarState | undefined {
    const known = state.following.get(byte);
    if (known !== undefined || state.following.has(byte)) return known;
    const reached: (Frame | undefined)[] = [];
    for (const { part, rest } of state.frames) {
      if (part.kind === "text") {
        const child = part.edges.get(byte);
        if (child !== undefined) reached.push(this.#frame(child, rest));
      } else if (byte >= part.from && byte <= part.to) {
        reached.push(rest);
      }
    }
    const next = reached.length === 0 ? undefined : this.#stateOf(reached);
    state.following.set(byte, next);
    return next;
  }

  /** The state after more bytes, or undefined if they are not allowed. */
  stepAll(state: GrammarState, bytes: Iterable<number>): GrammarState | undefined {
    let reached: GrammarState | undefined = state;
    for (const byte of bytes) {
      reached = this.step(reached, byte);
      if (reached === undefined) return undefined;
    }
    return reached;
  }

  /** The bytes to the text's nearest end. */
  closing(state: GrammarState): number[] {
    const bytes: number[] = [];
    for (let at = state; at.leastBytes > 0; ) {
      const byte = this.#closingByte(at);
      bytes.push(byte);
      at = this.step(at, byte)!;
    }
    return bytes;
  }

  #closingByte({ frames, leastBytes }: GrammarState): number {
    const { part } = frames.find(({ least }) => least === leastBytes)!;
    if (part.kind === "range") return part.from;
    return [...part.edges].reduce((a, b) => (b[1].least < a[1].least ? b : a))[0];
  }

  #stateOf(frames: readonly (Frame | undefined)[]): GrammarState {
    const { leaves, isEnd } = this.#expanded(frames);
    const sorted = [...leaves].sort((a, b) => a.id - b.id);
    const key = `${isEnd} ${sorted.map(({ id }) => id).join(" ")}`;
    let state = this.#states.get(key);
    if (state === undefined) {
      const leastBytes = isEnd ? 0 : Math.min(...sorted.map(({ least }) => least));
      state = { isEnd, leastBytes, frames: sorted, following: new Map() };
      this.#states.set(key, state);
    }
    return state;
  }

  /**
   * The byte frames after these, and whether the rest is optional. It keeps a stack of its own:
   * thousands of optional members may follow each other.
   */
  #expanded(frames: readonly (Frame | undefined)[]): { leaves: Set<Leaf>; isEnd: boolean } {
    const leaves = new Set<Leaf>();
    const seen = new Set<Frame>();
    let isEnd = false;
    const open = frames.map((frame) => () => frame).toReversed();
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const frame = next();
      if (frame === undefined) isEnd = true;
      else if (!seen.has(frame)) {
        seen.add(frame);
        if (
          frame.part.kind === "range" ||
          (frame.part.kind === "text" && frame.part.edges.size > 0)
        ) {
          leaves.add(frame as Leaf);
        }
        open.push(...this.#inside(frame).toReversed());
      }
    }
    return { leaves, isEnd };
  }

  /** The beginnings of a frame, made when its turn comes. */
  #inside({ part, rest }: Frame): (() => Frame | undefined)[] {
    switch (part.kind) {
      case "range":
        return [];
      case "text":
        return part.least === 0 ? [() => rest] : [];
      case "sequence": {
        const after = () => (part.rest === undefined ? rest : this.#frame(part.rest, rest));
        return [() => this.#frame(part.first, after())];
      }
      case "choice":
        return part.items.map((item) => () => this.#frame(item, rest));
      case "repeat": {
        const stop = part.min === 0 ? [() => rest] : [];
        const again = () => this.#frame(part.item, this.#frame(once(part), rest));
        return part.max === 0 ? stop : [...stop, again];
      }
      case "rule":
        return [() => this.#frame(this.#rules.get(part.name)!, rest)];
    }
  }

  #frame(part: Part, rest: Frame | undefined): Frame {
    let byRest = this.#frames.get(part);
    if (byRest === undefined) {
      byRest = new Map();
      this.#frames.set(part, byRest);
    }
    let frame = byRest.get(rest);
    if (frame === undefined) {
      const least = this.#leastOf(part) + (rest?.least ?? 0);
      frame = { id: this.#frameCount++, part, rest, least };
      byRest.set(rest, frame);
    }
    return frame;
  }

  /** Rules refer to each other: their least lengths sink from infinity until nothing changes. */
  #measureRules(): void {
    for (const part of this.#rules.values()) this.#least.set(part, Number.POSITIVE_INFINITY);
    for (let hasChanged = true; hasChanged; ) {
      hasChanged = false;
      for (const part of this.#rules.values()) {
        const least = this.#measured(part);
        if (least < this.#least.get(part)!) hasChanged = true;
        this.#least.set(part, least);
      }
    }
    this.#areRulesMeasured = true;
  }

  #leastOf(part: Part): number {
    let least = this.#least.get(part);
    if (least === undefined) {
      least = this.#measured(part);
      this.#least.set(part, least);
    }
    return least;
  }

  #measured(part: Part): number {
    // While rules are measured, lengths that depend on them may still sink: nothing is kept then.
    const of = (inner: Part): number =>
      this.#areRulesMeasured ? this.#leastOf(inner) : this.#measured(inner);
    switch (part.kind) {
      case "range":
        return 1;
      case "text":
        return part.least;
      case "sequence": {
        let least = 0;
        for (let at: SequencePart | undefined = part; at; at = at.rest) least += of(at.first);
        return least;
      }
      case "choice":
        return Math.min(...part.items.map(of));
      case "repeat":
        return part.min === 0 ? 0 : part.min * of(part.item);
      case "rule":
        return this.#least.get(this.#rules.get(part.name)!)!;
    }
  }
}

function once(part: RepeatPart): RepeatPart {
  part.less ??= {
    kind: "repeat",
    item: part.item,
    min: Math.max(0, part.min - 1),
    max: part.max - 1,
  };
  // Without a bound, the part follows itself.
  return part.min === 0 && part.max === Number.POSITIVE_INFINITY ? part : part.less;
}

function compile(node: GrammarNode): Part {
  switch (node.kind) {
    case "text":
      return textsPart([node.text]);
    case "sequence":
      return sequence(node.items.map(compile));
    case "choice":
      return compileChoice(node.items);
    case "repeat": {
      const { item, min, max = Number.POSITIVE_INFINITY } = node;
      return { kind: "repeat", item: compile(item), min, max };
    }
    case "characters":
      return { kind: "choice", items: node.ranges.flatMap(([from, to]) => ranges(from, to)) };
    case "rule":
      return { kind: "rule", name: node.name };
  }
}

function ranges(from: number, to: number): Part[] {
  return utf8Ranges(from, to).map((bytes) =>
    sequence(bytes.map((range): Part => ({ kind: "range", ...range }))),
  );
}

/** Texts among the items become one part: there may be thousands with common beginnings. */
function compileChoice(items: readonly GrammarNode[]): Part {
  const texts = items.filter((item) => item.kind === "text").map(({ text }) => text);
  const others = items.filter((item) => item.kind !== "text").map(compile);
  if (texts.length === 0) return { kind: "choice", items: others };
  const together = textsPart(texts);
  return others.length === 0 ? together : { kind: "choice", items: [together, ...others] };
}

function sequence(items: readonly Part[]): Part {
  if (items.length === 1) return items[0]!;
  return (
    items.reduceRight<SequencePart | undefined>(
      (rest, first) => ({ kind: "sequence", first, rest }),
      undefined,
    ) ?? textsPart([""])
  );
}

function textsPart(texts: readonly string[]): TextPart {
  const root: TextPart = { kind: "text", edges: new Map(), least: Number.POSITIVE_INFINITY };
  for (const text of texts) {
    const bytes = Buffer.from(text);
    let place = root;
    for (const [at, byte] of bytes.entries()) {
      place.least = Math.min(place.least, bytes.length - at);
      let next = place.edges.get(byte);
      if (next === undefined) {
        next = { kind: "text", edges: new Map(), least: Number.POSITIVE_INFINITY };
        place.edges.set(byte, next);
      }
      place = next;
    }
    place.least = 0;
  }
  return root;
}

/** Bytes from `from` up to and including `to`. */
interface ByteRange {
  from: number;
  to: number;
}

const lastOfLength = [0x7f, 0x7ff, 0xffff, 0x10ffff];
const surrogates = { from: 0xd800, to: 0xdfff };

/**
 * The UTF-8 encodings of a range of code points, as alternatives of consecutive byte ranges.
 * Surrogates, which have no encoding, are left out.
 *
 * The range is cut until all encodings of a piece have the same length and each byte of them has a
 * full range (the method of Ken Thompson's grep, as Russ Cox describes it in "Regular Expression
 * Matching in the Wild", 2010).
 */
export function utf8Ranges(from: number, to: number): ByteRange[][] {
  if (from > to) return [];
  if (from <= surrogates.to && to >= surrogates.from) {
    return [...utf8Ranges(from, surrogates.from - 1), ...utf8Ranges(surrogates.to + 1, to)];
  }
  for (const last of lastOfLength) {
    if (from <= last && to > last) return [...utf8Ranges(from, last), ...utf8Ranges(last + 1, to)];
  }
  // A piece spans whole blocks of continuation bytes, or lies within one block.
  for (let bits = 6; bits <= 18 && to > 0x7f; bits += 6) {
    const block = (1 << bits) - 1;
    if (from >> bits === to >> bits) break;
    if ((from & block) !== 0) {
      return [...utf8Ranges(from, from | block), ...utf8Ranges((from | block) + 1, to)];
    }
    if ((to & block) !== block) {
      return [...utf8Ranges(from, (to & ~block) - 1), ...utf8Ranges(to & ~block, to)];
    }
  }
  const first = Buffer.from(String.fromCodePoint(from));
  const last = Buffer.from(String.fromCodePoint(to));
  return [Array.from(first, (byte, at) => ({ from: byte, to: last[at]! }))];
}
