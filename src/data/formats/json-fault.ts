import { skipBlanks } from "../../foundation/json-members.ts";

const quote = 34;
const backslash = 92;
const openBracket = 91;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;
const comma = 44;
const colon = 58;

type Expected = "value" | "first-element" | "first-name" | "name" | "colon" | "more";

/**
 * The index in `text` at which it stops being JSON. That is the first invalid character, the text's
 * length if it ends too early, or -1 if it is JSON. The messages of `JSON.parse` do not always say
 * it.
 *
 * @example
 * jsonFaultAt('{"a":1,}'); // 7
 */
export function jsonFaultAt(text: string): number {
  const closers: number[] = [];
  let expected: Expected = "value";
  let at = 0;
  for (;;) {
    at = skipBlanks(text, at);
    const code = text.charCodeAt(at);
    if (expected === "more") {
      if (closers.length === 0) return at === text.length ? -1 : at;
      if (code === comma) expected = closers.at(-1) === closeBrace ? "name" : "value";
      else if (code === closers.at(-1)) closers.pop();
      else return at;
      at++;
    } else if (expected === "colon") {
      if (code !== colon) return at;
      [expected, at] = ["value", at + 1];
    } else if (isClosing(expected, code)) {
      closers.pop();
      [expected, at] = ["more", at + 1];
    } else if (expected === "name" || expected === "first-name") {
      const end: number = code === quote ? endOfString(text, at) : -1 - at;
      if (end < 0) return -1 - end;
      [expected, at] = ["colon", end];
    } else if (code === openBrace || code === openBracket) {
      closers.push(code === openBrace ? closeBrace : closeBracket);
      [expected, at] = [code === openBrace ? "first-name" : "first-element", at + 1];
    } else {
      const end: number = code === quote ? endOfString(text, at) : endOfScalar(text, at);
      if (end < 0) return -1 - end;
      [expected, at] = ["more", end];
    }
  }
}

function isClosing(expected: Expected, code: number): boolean {
  return (
    (expected === "first-element" && code === closeBracket) ||
    (expected === "first-name" && code === closeBrace)
  );
}

/** The index after the closing quote; `-1 - f` for a fault at index `f`. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) return at + 1;
    if (!(code >= 32)) return -1 - at;
    if (code !== backslash) continue;
    at++;
    const escaped = text.charAt(at);
    if (escaped === "u") {
      for (let digit = 1; digit <= 4; digit++, at++) {
        if (!/[\da-f]/i.test(text.charAt(at + 1))) return -1 - (at + 1);
      }
    } else if (escaped === "" || !'"\\/bfnrt'.includes(escaped)) {
      return -1 - at;
    }
  }
}

const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** The index after a number, `true`, `false` or `null`; `-1 - f` for a fault at index `f`. */
function endOfScalar(text: string, start: number): number {
  for (const word of ["true", "false", "null"]) {
    if (text.charAt(start) !== word[0]) continue;
    let length = 1;
    while (length < word.length && text[start + length] === word[length]) length++;
    return length === word.length ? start + length : -1 - (start + length);
  }
  numberPattern.lastIndex = start;
  const number = numberPattern.exec(text);
  if (number) return start + number[0].length;
  return -1 - (text.charAt(start) === "-" ? start + 1 : start);
}
