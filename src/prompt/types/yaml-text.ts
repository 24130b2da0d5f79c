import type { WrittenJson, WrittenRow } from "../../foundation/exact-json.ts";
import { isObject } from "../value-text.ts";

// Equals the output of PyYAML 6 in block style, which is part of Axolotl's prompts: sorted keys,
// lines of 80 characters, ASCII only.
const width = 80;
const indentStep = 2;

/** Plain texts that YAML 1.1 reads as another type. */
const otherThanText = [
  /^(?:~|null|Null|NULL|<<|=|)$/,
  /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/,
  /^[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*(?::[0-5]?[0-9])*|0x[0-9a-fA-F_]+)$/,
  /^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)$/,
  /^(?:[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
  /^\d{4}-\d\d-\d\d$/,
  /^\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?$/,
];
/** A plain text with one of these would be read as YAML syntax. */
const indicator = /^(?:---|\.\.\.)|^[#,[\]{}&*!|>'"%@`]|^[?:-](?:\s|$)|:(?:\s|$)|\s#/;

const escapes: Readonly<Record<string, string>> = {
  ...{ "\0": "0", "\x07": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r" },
  ...{ "\x1b": "e", '"': '"', "\\": "\\", "\x85": "N", "\xa0": "_" },
  ...{ "\u2028": "L", "\u2029": "P" },
};

/**
 * A JSON value as YAML, with a line break at its end. Keys must be texts and not empty.
 *
 * @example
 * yamlText({ b: "it's: so", a: [1, null] }); // "a:\n- 1\n- null\nb: 'it''s: so'\n"
 */
export function yamlText(value: WrittenJson): string {
  const writer = new YamlWriter();
  writer.root(value);
  return `${writer.text}\n`;
}

class YamlWriter {
  text = "";
  #lineStart = 0;

  root(value: WrittenJson): void {
    if (isObject(value) || Array.isArray(value)) this.#collection(value, 0, true);
    else this.#scalar(value, indentStep);
  }

  /** @param isOnLine true if it begins on the current line. */
  #collection(value: WrittenJson[] | WrittenRow, indent: number, isOnLine: boolean): void {
    const isList = Array.isArray(value);
    const keys = isList ? [...value.keys()] : Object.keys(value).sort();
    if (keys.length === 0) this.text += isList ? "[]" : "{}";
    for (const [at, key] of keys.entries()) {
      if (at > 0 || !isOnLine) this.#breakLine(indent);
      if (isList) this.text += "-";
      else this.#key(String(key));
      this.#inner(isList ? value[key as number]! : value[key]!, indent, isList);
    }
  }

  /** A value after its key or dash. */
  #inner(value: WrittenJson, indent: number, isInList: boolean): void {
    const isList = Array.isArray(value);
    const hasInner = isList ? value.length > 0 : isObject(value) && Object.keys(value).length > 0;
    // A list is indented like its key.
    const inner = isList && !isInList ? indent : indent + indentStep;
    if (isInList || !hasInner) this.text += " ";
    if (isList || isObject(value)) this.#collection(value, inner, isInList || !hasInner);
    else this.#scalar(value, indent + indentStep);
  }

  #key(key: string): void {
    this.#string(key, undefined);
    this.text += ":";
  }

  #scalar(value: WrittenJson, indent: number): void {
    if (typeof value === "string") this.#string(value, indent);
    else this.text += String(value);
  }

  /** @param indent of further lines; undefined: the text must stay on its line. */
  #string(value: string, indent: number | undefined): void {
    const isAscii = /^[\n\x20-\x7e]*$/.test(value);
    const hasBreak = value.includes("\n");
    const isText = !indicator.test(value) && !otherThanText.some((other) => other.test(value));
    if (isAscii && !hasBreak && isText && !/^ | $/.test(value)) {
      this.#words(value, indent);
    } else if (isAscii && !/ \n|\n /.test(value) && !(hasBreak && indent === undefined)) {
      this.text += "'";
      this.#words(value.replaceAll("'", "''"), indent);
      this.text += "'";
    } else this.#doubleQuoted([...value], indent);
  }

  /** Writes text, quoted or bare. A line that is too long ends at the next single space. */
  #words(value: string, indent: number | undefined): void {
    const parts = value.split(/( +|\n+)/);
    for (const [at, part] of parts.entries()) {
      const isAtEdge = parts[at - 1] === "" || parts[at + 1] === "";
      if (indent === undefined) this.text += part;
      else if (part.startsWith("\n")) {
        this.text += part;
        this.#breakLine(indent);
      } else if (part === " " && !isAtEdge && this.#column > width) this.#breakLine(indent);
      else this.text += part;
    }
  }

  #doubleQuoted(characters: readonly string[], indent: number | undefined): void {
    this.text += '"';
    let pending = 0;
    for (const [at, character] of characters.entries()) {
      const isPlain = /^[ !#-[\]-~]$/.test(character);
      if (!isPlain) {
        this.text += characters.slice(pending, at).join("") + escaped(character);
        pending = at + 1;
      }
      const isInside = at > 0 && at < characters.length - 1;
      const mayBreak = isInside && (character === " " || pending >= at);
      if (!mayBreak || indent === undefined || this.#column + at - pending <= width) continue;
      this.text += `${characters.slice(pending, at).join("")}\\`;
      pending = Math.max(pending, at);
      this.#breakLine(indent);
      // YAML drops a space at the start of a line.
      if (characters[pending] === " ") this.text += "\\";
    }
    this.text += `${characters.slice(pending).join("")}"`;
  }

  get #column(): number {
    return this.text.length - this.#lineStart;
  }

  #breakLine(indent: number): void {
    this.text += "\n";
    this.#lineStart = this.text.length;
    this.text += " ".repeat(indent);
  }
}

function escaped(character: string): string {
  const short = escapes[character];
  if (short !== undefined) return `\\${short}`;
  const code = character.codePointAt(0)!;
  const [letter, digits] = code <= 0xff ? ["x", 2] : code <= 0xffff ? ["u", 4] : ["U", 8];
  return `\\${letter}${code
    .toString(16)
    .toUpperCase()
    .padStart(digits as number, "0")}`;
}
