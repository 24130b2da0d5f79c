import {
  endOfString,
  endOfValue,
  isBlank,
  memberTexts,
  skipBlanks,
} from "../foundation/json-members.ts";

const openBrace = 123;
const closeBrace = 125;

/**
 * The text of a JSON object with one more member, or with that member's value replaced. Every other
 * byte stays as it is (`9007199254740993` and `1.0` survive).
 *
 * @param raw the text of a JSON object, as in `InputRow.raw`.
 * @param fieldJson the member's name as `JSON.stringify` writes it, with quotes.
 * @param valueJson its value as JSON text.
 * @param hasField whether the object already has the member; if absent, `raw` is searched.
 *   through.
 * @example
 * spliceField('{"id":9007199254740993}', '"answer"', '"yes"');
 * // '{"id":9007199254740993,"answer":"yes"}'
 */
export function spliceField(
  raw: string,
  fieldJson: string,
  valueJson: string,
  hasField: boolean = mayHaveMember(raw, fieldJson),
): string {
  if (hasField) return replaceMember(raw, fieldJson, valueJson);
  return appendMember(raw, fieldJson, valueJson);
}

/** Names that JSON can write in another way only with `\\uXXXX` escapes. */
const plainName = /^"[\w -]*"$/;

/** False only if it is certain: the name may be written with escapes. */
function mayHaveMember(raw: string, fieldJson: string): boolean {
  if (raw.includes(fieldJson)) return true;
  return raw.includes(plainName.test(fieldJson) ? "\\u" : "\\");
}

function appendMember(raw: string, fieldJson: string, valueJson: string): string {
  let end = raw.length - 1;
  while (raw.charCodeAt(end) !== closeBrace) end--;
  let last = end - 1;
  while (isBlank(raw.charCodeAt(last))) last--;
  const separator = raw.charCodeAt(last) === openBrace ? "" : ",";
  const tail = end === raw.length - 1 ? "}" : raw.slice(end);
  return `${raw.slice(0, end)}${separator}${fieldJson}:${valueJson}${tail}`;
}

/** Replaces every occurrence, because readers differ on which of two equal names counts. */
function replaceMember(raw: string, fieldJson: string, valueJson: string): string {
  let result = "";
  let copied = 0;
  let at = raw.indexOf("{") + 1;
  for (;;) {
    const nameStart = raw.indexOf('"', at);
    if (nameStart < 0) break;
    const nameEnd = endOfString(raw, nameStart);
    const valueStart = skipBlanks(raw, raw.indexOf(":", nameEnd) + 1);
    const valueEnd = endOfValue(raw, valueStart);
    if (isSameName(raw.slice(nameStart, nameEnd), fieldJson)) {
      result += raw.slice(copied, valueStart) + valueJson;
      copied = valueEnd;
    }
    at = valueEnd;
  }
  if (copied === 0) return appendMember(raw, fieldJson, valueJson);
  return result + raw.slice(copied);
}

/**
 * The text of a JSON object with only these members, in this order. The texts of the values stay as
 * they are. Names that the object lacks are left out.
 *
 * @example
 * selectFields('{"a":1.0,"b":2,"c":3}', ["c", "a"]); // '{"c":3,"a":1.0}'
 */
export function selectFields(raw: string, names: readonly string[]): string {
  const texts = memberTexts(raw);
  const members = names
    .filter((name) => texts.has(name))
    .map((name) => `${JSON.stringify(name)}:${texts.get(name)}`);
  return `{${members.join(",")}}`;
}

function isSameName(name: string, fieldJson: string): boolean {
  if (name === fieldJson) return true;
  return name.includes("\\") && JSON.parse(name) === JSON.parse(fieldJson);
}
