/** A fault of a template: what is wrong, and the offset of its tag. */
export interface TemplateFault {
  problem: string;
  at: number;
  /** The text of the tag, if the fault is inside it. */
  inside?: string;
}

interface Tag {
  kind: "{{" | "{%" | "{#";
  at: number;
  /** The tag's text, from `{{` to `}}`. */
  text: string;
  closed: boolean;
}

const tagEnds = { "{{": "}}", "{%": "%}", "{#": "#}" } as const;

/** Statements that open a block, with the names that end it. `set` opens one only without `=`. */
const blockEnds: Readonly<Record<string, string>> = {
  if: "endif",
  for: "endfor",
  macro: "endmacro",
  call: "endcall",
  filter: "endfilter",
  set: "endset",
};

/**
 * Finds the tag that is invalid, because the library reports no positions. Each tag is parsed
 * separately, then blocks are matched with their ends.
 *
 * @param parse throws if a text is not a valid template.
 * @param describe turns a thrown error into words.
 */
export function findFault(
  source: string,
  parse: (source: string) => unknown,
  describe: (thrown: unknown) => string,
): TemplateFault | undefined {
  const open: { name: string; at: number }[] = [];
  for (const tag of tagsOf(source)) {
    if (!tag.closed) {
      return { problem: `\`${tag.kind}\` is never closed by \`${tagEnds[tag.kind]}\``, at: tag.at };
    }
    if (tag.kind === "{#") continue;
    const name = tag.kind === "{%" ? statementOf(tag) : "";
    const wrong = faultInside(tag, name, parse, describe);
    if (wrong !== undefined) return { problem: wrong, at: tag.at, inside: tag.text };
    const problem = matchBlock(tag, name, open);
    if (problem !== undefined) return { problem, at: tag.at };
  }
  const left = open.at(-1);
  if (left === undefined) return undefined;
  return {
    problem: `${left.name} is never closed by ${blockEnds[left.name]}`,
    at: left.at,
  };
}

/** Offset of the first tag that uses a filter or test of this name. */
export function findUse(source: string, name: string): number | undefined {
  const use = new RegExp(`(\\||\\bis|\\bnot|\\bfilter)\\s*${name}\\b`);
  return tagsOf(source).find((tag) => use.test(tag.text))?.at;
}

function tagsOf(source: string): Tag[] {
  const tags: Tag[] = [];
  const opening = /\{[{%#]/g;
  for (let found = opening.exec(source); found !== null; found = opening.exec(source)) {
    const kind = found[0] as Tag["kind"];
    const end = endOfTag(source, found.index + 2, kind);
    const text = source.slice(found.index, end ?? source.length);
    tags.push({ kind, at: found.index, text, closed: end !== undefined });
    if (end === undefined) break;
    opening.lastIndex = end;
  }
  return tags;
}

/** Offset after the tag's end. An end within quotes or within an object's braces does not count. */
function endOfTag(source: string, from: number, kind: Tag["kind"]): number | undefined {
  let quote = "";
  let braces = 0;
  for (let at = from; at < source.length; at++) {
    const character = source[at]!;
    if (kind !== "{#" && quote !== "") {
      if (character === "\\") at++;
      else if (character === quote) quote = "";
    } else if (braces === 0 && source.startsWith(tagEnds[kind], at)) return at + 2;
    else if (kind === "{#") continue;
    else if (character === "'" || character === '"') quote = character;
    else if (character === "{") braces++;
    else if (character === "}") braces--;
  }
  return undefined;
}

function statementOf(tag: Tag): string {
  return /^\{%-?\s*(\w*)/.exec(tag.text)?.[1] ?? "";
}

function opensBlock(tag: Tag, name: string): boolean {
  if (!Object.hasOwn(blockEnds, name)) return false;
  return name !== "set" || !/^\{%-?\s*set\s[^=]*=/.test(tag.text);
}

function faultInside(
  tag: Tag,
  name: string,
  parse: (source: string) => unknown,
  describe: (thrown: unknown) => string,
): string | undefined {
  if (/^end/.test(name) || name === "else") return undefined;
  const alone =
    name === "elif"
      ? `{% if x %}${tag.text}{% endif %}`
      : opensBlock(tag, name)
        ? `${tag.text}{% ${blockEnds[name]} %}`
        : tag.text;
  try {
    parse(alone);
    return undefined;
  } catch (cause) {
    // A TypeError means that the parser ran past the end of the tag.
    if (cause instanceof TypeError) return "the tag ends too early";
    return describe(cause);
  }
}

function matchBlock(
  tag: Tag,
  name: string,
  open: { name: string; at: number }[],
): string | undefined {
  if (opensBlock(tag, name)) open.push({ name, at: tag.at });
  const inner = open.at(-1)?.name;
  if (name === "elif" && inner !== "if") return "elif without if";
  if (name === "else" && inner !== "if" && inner !== "for") return "else without if or for";
  if (!name.startsWith("end") || name === "endgeneration") return undefined;
  if (inner === undefined) return `${name} without anything open`;
  if (blockEnds[inner] !== name) return `${name} where ${blockEnds[inner]} is expected`;
  open.pop();
  return undefined;
}
