/** One `key=value` of a text, its value still a text. */
export interface Pair {
  name: string;
  text: string;
  /** It stood in double quotes, and is a text whatever it looks like. */
  isQuoted: boolean;
}

const pair = /\s*([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^,]*?)\s*(?:,|$)/y;

/**
 * Reads `name=Sample,path=rows.jsonl`. A value in double quotes may hold commas.
 *
 * @returns undefined if the text is not such a list.
 */
export function readPairs(text: string): Pair[] | undefined {
  const read: Pair[] = [];
  pair.lastIndex = 0;
  while (pair.lastIndex < text.length) {
    const [, name, given = ""] = pair.exec(text) ?? [];
    if (name === undefined) return undefined;
    const isQuoted = given.startsWith('"');
    read.push({ name, text: isQuoted ? unquoted(given) : given, isQuoted });
  }
  return read;
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text) as string;
  } catch {
    return text;
  }
}
