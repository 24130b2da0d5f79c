/**
 * The texts that an answer may be: a context-free grammar as plain data, so that it can be sent to
 * engine hosts and printed for servers.
 */
export interface Grammar {
  root: GrammarNode;
  /** Named parts. They may refer to each other and to themselves. */
  rules: Readonly<Record<string, GrammarNode>>;
}

/** A part of a grammar. */
export type GrammarNode =
  /** Exactly this text. */
  | { kind: "text"; text: string }
  /** The items one after another. */
  | { kind: "sequence"; items: readonly GrammarNode[] }
  /** Any one of the items. An empty choice matches nothing. */
  | { kind: "choice"; items: readonly GrammarNode[] }
  /** The item at least `min` times; at most `max` times, if there is one. */
  | { kind: "repeat"; item: GrammarNode; min: number; max?: number }
  /** One character out of these ranges of code points, both ends included. */
  | { kind: "characters"; ranges: readonly (readonly [from: number, to: number])[] }
  /** The rule of this name. */
  | { kind: "rule"; name: string };

// One function for each kind of node.
export const text = (value: string): GrammarNode => ({ kind: "text", text: value });
export const sequence = (...items: GrammarNode[]): GrammarNode => ({ kind: "sequence", items });
export const choice = (items: readonly GrammarNode[]): GrammarNode => ({ kind: "choice", items });
export const characters = (ranges: readonly (readonly [from: number, to: number])[]) =>
  ({ kind: "characters", ranges }) satisfies GrammarNode;
export const repeat = (item: GrammarNode, min: number, max?: number): GrammarNode => ({
  ...{ kind: "repeat", item, min },
  ...(max !== undefined && { max }),
});
export const rule = (name: string): GrammarNode => ({ kind: "rule", name });

/** The item or nothing. */
export const optional = (item: GrammarNode): GrammarNode => repeat(item, 0, 1);

/** Any one of the items; an only one stands for itself. */
export const oneOf = (items: readonly GrammarNode[]): GrammarNode =>
  items.length === 1 ? items[0]! : choice(items);

/** The same grammar with other names of its rules, so that it can stand in a larger one. */
export function withOwnRules({ root, rules }: Grammar, prefix: string): Grammar {
  const own = (name: string) => `${prefix} ${name}`;
  const entries = Object.entries(rules).map(([name, node]) => [own(name), renamed(node, own)]);
  return { root: renamed(root, own), rules: Object.fromEntries(entries) };
}

/** The texts of both grammars. */
export function eitherOf(a: Grammar, b: Grammar): Grammar {
  const [first, second] = [withOwnRules(a, "first"), withOwnRules(b, "second")];
  return {
    root: choice([first.root, second.root]),
    rules: { ...first.rules, ...second.rules },
  };
}

function renamed(node: GrammarNode, own: (name: string) => string): GrammarNode {
  switch (node.kind) {
    case "rule":
      return rule(own(node.name));
    case "repeat":
      return { ...node, item: renamed(node.item, own) };
    case "sequence":
    case "choice":
      return { ...node, items: node.items.map((item) => renamed(item, own)) };
    default:
      return node;
  }
}

/**
 * A grammar in GBNF, the notation that llama.cpp and servers built on it take.
 *
 * Source: the description of GBNF in llama.cpp's `grammars/README.md`.
 *
 * @example
 * toGbnf({ root: { kind: "text", text: "yes" }, rules: {} }); // 'root ::= "yes"\n'
 */
export function toGbnf({ root, rules }: Grammar): string {
  const names = new Map(Object.keys(rules).map((name, at) => [name, `rule-${at + 1}`]));
  const printer = { names, blocks: new Map<string, string>() };
  const lines = [`root ::= ${printed(root, printer)}`];
  for (const [name, node] of Object.entries(rules)) {
    lines.push(`${names.get(name)} ::= ${printed(node, printer)}`);
  }
  for (const [body, name] of printer.blocks) lines.push(`${name} ::= ${body}`);
  return `${lines.join("\n")}\n`;
}

interface Printer {
  /** Names of the grammar's rules in GBNF. */
  names: ReadonlyMap<string, string>;
  /** Names of further rules, by what they stand for. */
  blocks: Map<string, string>;
}

/**
 * Readers of GBNF write a repetition out. XGrammar then takes time with the square of its length:
 * ten texts of up to 280 characters took 147 s, and as blocks that stand for themselves 6 s.
 */
const blockLength = 4;
const longestPlain = 2 * blockLength;

function printed(node: GrammarNode, printer: Printer): string {
  switch (node.kind) {
    case "text":
      return printedText(node.text);
    case "sequence":
      return node.items.length === 0
        ? '""'
        : `(${node.items.map((item) => printed(item, printer)).join(" ")})`;
    case "choice":
      return `(${node.items.map((item) => printed(item, printer)).join(" | ")})`;
    case "repeat":
      return repeated(repeatable(node.item, printer), node.min, node.max, printer);
    case "characters":
      return `[${digitsFirst(node.ranges)
        .map(([from, to]) => printedRange(from, to))
        .join("")}]`;
    case "rule":
      return printer.names.get(node.name)!;
  }
}

/**
 * XGrammar writes a grammar anew, with bytes such as `\xb0`, and then reads the hex digits that
 * follow as part of them: so `°F` became `\u0b0f`. Such a digit stands in a literal of its own.
 */
function printedText(text: string): string {
  const literals = text
    .split(/(?<=[^ -~])(?=[0-9a-f])/iu)
    .map((part) => `"${[...part].map((character) => escaped(character, `"\\`)).join("")}"`);
  return literals.length === 1 ? literals[0]! : `(${literals.join(" ")})`;
}

/** For the same reason, no range that begins with a hex digit stands after others. */
function digitsFirst<Range extends readonly [from: number, to: number]>(
  ranges: readonly Range[],
): Range[] {
  const isDigit = ([from]: Range) => /[0-9a-f]/i.test(String.fromCodePoint(from));
  const [first, last] = [ranges.filter(isDigit), ranges.filter((range) => !isDigit(range))];
  return [...first, ...last];
}

/** Wraps a repetition in a group: not every reader of GBNF takes two repetition signs in a row. */
function repeatable(node: GrammarNode, printer: Printer): string {
  const item = printed(node, printer);
  return node.kind === "repeat" ? `(${item})` : item;
}

function repeated(item: string, min: number, max: number | undefined, { blocks }: Printer): string {
  const parts: string[] = [];
  const times = (each: string, least: number, most: number | "" = least): string => {
    const body = `${each}{${least},${most}}`;
    const name = blocks.get(body) ?? `block-${blocks.size + 1}`;
    blocks.set(body, name);
    return name;
  };
  const blockOf = (each: string) => times(each, blockLength);
  const exactly = (each: string, count: number): void => {
    if (count > longestPlain) exactly(blockOf(each), Math.floor(count / blockLength));
    const rest = count > longestPlain ? count % blockLength : count;
    if (rest > 0) parts.push(times(each, rest));
  };
  const upTo = (each: string, count: number): void => {
    if (count <= longestPlain) return void parts.push(times(each, 0, count));
    // Any count has one of these sums: up to what is left, some blocks, and up to three.
    const whole = Math.floor((count - blockLength + 1) / blockLength);
    const left = count - blockLength + 1 - whole * blockLength;
    if (left > 0) parts.push(times(each, 0, left));
    upTo(blockOf(each), whole);
    parts.push(times(each, 0, blockLength - 1));
  };
  if ((max ?? min) <= longestPlain) return `${item}{${min},${max ?? ""}}`;
  exactly(item, min);
  if (max === undefined) parts.push(times(item, 0, ""));
  else if (max > min) upTo(item, max - min);
  return `(${parts.join(" ")})`;
}

function printedRange(from: number, to: number): string {
  const [first, last] = [from, to].map((code) => escaped(String.fromCodePoint(code), "[]^-\\"));
  return from === to ? first! : `${first}-${last}`;
}

function escaped(character: string, special: string): string {
  const code = character.codePointAt(0)!;
  const isPlain = code >= 0x20 && code < 0x7f && !special.includes(character);
  if (isPlain) return character;
  // Not `\\x22`: XGrammar, used by vLLM, reads the hex digits that follow as part of the code.
  return code <= 0xffff
    ? `\\u${code.toString(16).padStart(4, "0")}`
    : `\\U${code.toString(16).padStart(8, "0")}`;
}
