import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { plainValue } from "./plain-value.ts";
import {
  formsOf,
  type SchemaNode,
  takesOnlyString,
  takesString,
  typesOf,
  wordsAt,
} from "./schema-tree.ts";

const number = /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i;
/** As YAML spells them, and Python. */
const truth = /^(true|True|TRUE)$/;
const untruth = /^(false|False|FALSE)$/;

/**
 * The value of a text from a flag or a variable, at a place of the schema. If only text fits, it is
 * taken unchanged. If a list or an object also fits, `[…]` and `{…}` are read as YAML, provided
 * that their keys are known; `{{ … }}` and `{% … %}` are templates and stay text. `null` removes a
 * value.
 *
 * @throws SluiceError `USAGE` if the text is not YAML and the place takes no text.
 */
export async function valueFromText(text: string, nodes: readonly SchemaNode[]): Promise<Json> {
  const isFlow = /^(\[|\{(?![{%]))/.test(text.trim());
  if (isFlow && takesCollection(nodes)) {
    const value = await parseFlow(text, takesString(nodes));
    if (value !== undefined && (!takesString(nodes) || isForm(value, nodes))) return value;
  }
  return scalarFromText(text, nodes);
}

/** The same for a text that is neither a list nor an object. */
export function scalarFromText(text: string, nodes: readonly SchemaNode[]): Json {
  if (text === "null" && !takesOnlyString(nodes)) return null;
  const trimmed = text.trim();
  if (takesString(nodes)) return text;
  if (wordsAt(nodes).includes(trimmed)) return trimmed;
  if (takesOnlyString(nodes)) return text;
  if (truth.test(trimmed)) return true;
  if (untruth.test(trimmed)) return false;
  return number.test(trimmed) ? Number(trimmed) : text;
}

function takesCollection(nodes: readonly SchemaNode[]): boolean {
  const types = nodes.flatMap(formsOf).flatMap(typesOf);
  return types.includes("array") || types.includes("object");
}

/** A prompt such as `{a: b}` is a text, because no prompt has a key `a`. */
function isForm(value: Json, nodes: readonly SchemaNode[]): boolean {
  if (!isJsonObject(value)) return Array.isArray(value);
  const known = nodes.flatMap(formsOf).flatMap((form) => Object.keys(form.properties ?? {}));
  return Object.keys(value).every((key) => known.includes(key));
}

async function parseFlow(text: string, isTextTaken: boolean): Promise<Json | undefined> {
  // Loaded only here: most texts are scalars, and a command's start should not wait for YAML.
  const { parse } = await import("yaml");
  let value: unknown;
  try {
    value = parse(text, { intAsBigInt: true });
  } catch (cause) {
    if (isTextTaken) return undefined;
    throw new SluiceError("USAGE", `not a YAML value: ${text}`, { cause });
  }
  return plainValue(value);
}

/** One `key=value` of a text, its value still a text. */
interface Pair {
  name: string;
  text: string;
  /** It was in double quotes, and is a text whatever it looks like. */
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

/** What follows the name of an engine in the text of a model. */
const namedByText: Readonly<Record<string, string>> = {
  openai: "name",
  openvino: "name",
  llama: "name",
  "llama-server": "name",
  vllm: "name",
  fake: "name",
  predictor: "module",
  command: "command",
};

/**
 * The model of a text: `fake`, `ENGINE:NAME`, `transformers:TASK:NAME`, `predictor:MODULE`,
 * `command:PROGRAM`, or the catalog name or path of a model of engine `llama`.
 */
export function modelFromName(text: string): JsonObject {
  const [, engine = "", named] = /^([a-z-]+):(.+)$/s.exec(text) ?? [];
  if (engine === "transformers") return { engine, ...taskAndName(named!) };
  const key = Object.hasOwn(namedByText, engine) ? namedByText[engine] : undefined;
  if (key !== undefined) return { engine, [key]: named! };
  return text === "fake" ? { engine: "fake" } : { engine: "llama", name: text };
}

/** An unknown task, or none, is refused later, with the tasks that there are. */
function taskAndName(text: string): JsonObject {
  const [, task, name] = /^(?!hf:)([a-z-]+):(.+)$/s.exec(text) ?? [];
  return task === undefined ? { name: text } : { task, name: name! };
}
