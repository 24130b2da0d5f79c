const quote = 34;
const comma = 44;
const backslash = 92;
const openBracket = 91;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;

/**
 * The values of a JSON object by name, each as its text. As for `JSON.parse`, the last of two equal
 * names counts.
 *
 * @example
 * memberTexts('{"a": 1.0, "b": [2]}'); // Map { "a" => "1.0", "b" => "[2]" }
 */
export function memberTexts(object: string): Map<string, string> {
  const texts = new Map<string, string>();
  let at = object.indexOf("{") + 1;
  for (;;) {
    const nameStart = object.indexOf('"', at);
    if (nameStart < 0) return texts;
    const nameEnd = endOfString(object, nameStart);
    const valueStart = skipBlanks(object, object.indexOf(":", nameEnd) + 1);
    at = endOfValue(object, valueStart);
    const name = object.slice(nameStart + 1, nameEnd - 1);
    const plain = name.includes("\\") ? JSON.parse(`"${name}"`) : name;
    texts.set(plain, object.slice(valueStart, at));
  }
}

/**
 * The elements of a JSON list, each as its text.
 *
 * @example
 * elementTexts('[{"id": 1.0}, 2]'); // ['{"id": 1.0}', "2"]
 */
export function elementTexts(list: string): string[] {
  const texts: string[] = [];
  for (let at = skipBlanks(list, list.indexOf("[") + 1); list.charCodeAt(at) !== closeBracket; ) {
    const end = endOfValue(list, at);
    texts.push(list.slice(at, end));
    const next = skipBlanks(list, end);
    at = list.charCodeAt(next) === comma ? skipBlanks(list, next + 1) : next;
  }
  return texts;
}

/** The index after the value that begins at `start`, without white space that follows it. */
export function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === quote) return endOfString(text, start);
  if (first !== openBrace && first !== openBracket) return endOfScalar(text, start);
  for (let at = start, depth = 0; ; ) {
    const code = text.charCodeAt(at);
    if (code === openBrace || code === openBracket) depth++;
    else if (code === closeBrace || code === closeBracket) depth--;
    at = code === quote ? endOfString(text, at) : at + 1;
    if (depth === 0) return at;
  }
}

function endOfScalar(text: string, start: number): number {
  let at = start;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === comma || code === closeBrace || code === closeBracket || isBlank(code)) break;
  }
  return at;
}

/** The index after the closing quote of the string that begins at `start`. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end + 1;
}

function isEscaped(text: string, place: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(place - 1 - backslashes) === backslash) backslashes++;
  return backslashes % 2 === 1;
}

export function skipBlanks(text: string, start: number): number {
  let at = start;
  while (isBlank(text.charCodeAt(at))) at++;
  return at;
}

export function isBlank(code: number): boolean {
  return code === 32 || code === 9 || code === 10 || code === 13;
}
