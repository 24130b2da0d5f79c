import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Document, LineCounter, Pair } from "yaml";
import { SluiceError } from "../../foundation/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { utf8Text } from "../../foundation/utf8-text.ts";
import { namesOfKey } from "./generation-names.ts";
import { plainValue } from "./plain-value.ts";
import type { Origin, Problem } from "./problem.ts";
import { nodesAt, takesString } from "./schema-tree.ts";
import { valueFromText } from "./value-text.ts";
import { filled } from "./worker-variables.ts";

/** The content of a job file, before it is checked against the schema. */
export interface JobFile {
  value: JsonObject;
  origin: Origin & { from: "file" };
  problems: Problem[];
}

/**
 * Reads a job file, YAML or JSON, and fills in `${NAME}` from the environment. Messages name the
 * file as given.
 *
 * @throws SluiceError `JOB_INVALID` if the file cannot be read, is not a mapping in YAML, or
 *   exceeds `limits.maxJobFileBytes` or `maxJobLexemes`.
 */
export async function readJobFile(
  file: string,
  environment: Readonly<Record<string, string | undefined>>,
  workingDirectory = ".",
): Promise<JobFile> {
  const text = await readText(resolve(workingDirectory, file), file);
  const yaml = await import("yaml");
  assertFewLexemes(new yaml.Lexer().lex(text), file);
  const lines = new yaml.LineCounter();
  // The library's own search for duplicate keys compares each with each.
  const exact = { intAsBigInt: true };
  const options = { lineCounter: lines, prettyErrors: false, uniqueKeys: false, ...exact };
  const document = namedFaults(file, () => yaml.parseDocument(text, options));
  const lineOf = (path: readonly string[]) => lineOfPath(document, lines, path, yaml.isMap);
  const origin = { from: "file" as const, file, lineOf };
  const [fault] = document.errors;
  if (fault) {
    const { line } = lines.linePos(fault.pos[0]);
    const isTemplate = /\{\{|\{%/.test(text.split("\n")[line - 1]!);
    const hint = isTemplate ? { hint: quoteHint } : {};
    throw new SluiceError("JOB_INVALID", fault.message, { file, line, cause: fault, ...hint });
  }
  assertPlainKeys(document, lines, file, yaml);
  const maxAliasCount = limits.maxYamlAliases;
  const given = namedFaults(file, (): unknown => document.toJS({ maxAliasCount }));
  const value = plainValue(given ?? {}, file);
  if (!isJsonObject(value)) {
    throw new SluiceError("JOB_INVALID", "it is not a mapping of keys to values", {
      file,
      hint: "a file of rows is given by --input; sluice init writes a job file to begin with",
    });
  }
  const problems: Problem[] = [];
  const expanded = await expand(value, [], { environment, origin, problems });
  return { value: expanded as JsonObject, origin, problems };
}

/** @throws SluiceError for a key that is there twice, or that is a mapping or a list. */
function assertPlainKeys(
  document: Document,
  lines: LineCounter,
  file: string,
  yaml: typeof import("yaml"),
): void {
  yaml.visit(document, {
    Map(_, { items }) {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!yaml.isScalar(key)) continue;
        const { line } = lines.linePos(key.range![0]);
        if (keys.has(key.value)) {
          throw new SluiceError("JOB_INVALID", `${key.value} is there twice`, { file, line });
        }
        keys.add(key.value);
      }
    },
    Pair(_, { key }) {
      if (!yaml.isCollection(key)) return;
      const { line } = lines.linePos(key.range![0]);
      const detail = "`{{ … }}` without quotes is a mapping to YAML, not a template";
      throw new SluiceError("JOB_INVALID", detail, { file, line, hint: quoteHint });
    },
  });
}

/** The lexer's mark before each text without quotes; it does not come from the file. */
const scalarMark = "\u001f";

/** @throws SluiceError before a parser makes a tree of them, which takes 400 bytes for each. */
function assertFewLexemes(lexemes: Iterable<string>, file: string): void {
  let count = 0;
  for (const lexeme of lexemes) {
    if (lexeme === scalarMark) continue;
    count += lexeme.trim() === "" ? 0.25 : 1;
    if (count <= limits.maxJobLexemes) continue;
    const most = limits.maxJobLexemes.toLocaleString("en");
    const detail = `it has over ${most} words and signs of YAML`;
    throw new SluiceError("JOB_INVALID", detail, { file, hint: "rows belong into input files" });
  }
}

/** Errors of the YAML library are faults of the file: aliases, and depth. */
function namedFaults<Result>(file: string, read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    const isDeep = cause instanceof RangeError;
    const detail = isDeep ? "it is nested too deeply" : (cause as Error).message;
    const hint = "write out what aliases stand for; 100 levels are the most";
    throw new SluiceError("JOB_INVALID", detail, { file, cause, hint });
  }
}

const quoteHint =
  'put a template that begins with a brace or bracket into quotes, as prompt: "{{ text }}", or ' +
  "below the key: prompt: |";

async function readText(path: string, file: string): Promise<string> {
  const unreadable = (cause: NodeJS.ErrnoException) => {
    const { code } = cause;
    const detail = code === "ENOENT" ? "there is no such file" : `it cannot be read (${code})`;
    throw new SluiceError("JOB_INVALID", detail, { file, cause, hint: "check the path" });
  };
  const { size } = await stat(path).catch(unreadable);
  if (size > limits.maxJobFileBytes) {
    const detail = `it has ${size} bytes, ${limits.maxJobFileBytes} are the most`;
    throw new SluiceError("JOB_INVALID", detail, { file, hint: "rows belong into input files" });
  }
  return utf8Text(await readFile(path).catch(unreadable), "JOB_INVALID", file);
}

function lineOfPath(
  document: Document,
  lines: LineCounter,
  path: readonly string[],
  isMap: typeof import("yaml").isMap,
): number | undefined {
  for (let depth = path.length; depth > 0; depth--) {
    const parent = document.getIn(path.slice(0, depth - 1), true);
    if (isMap(parent)) {
      const names = namesOfKey(path.slice(0, depth));
      const pair = parent.items.find((item: Pair) => names.includes(String(item.key)));
      const start = (pair?.key as { range?: [number] } | undefined)?.range?.[0];
      if (start !== undefined) return lines.linePos(start).line;
      continue;
    }
    const node = document.getIn(path.slice(0, depth), true) as { range?: [number] } | undefined;
    if (node?.range) return lines.linePos(node.range[0]).line;
  }
  return undefined;
}

interface Expansion {
  environment: Readonly<Record<string, string | undefined>>;
  origin: Origin;
  problems: Problem[];
}

async function expand(value: Json, path: readonly string[], to: Expansion): Promise<Json> {
  if (typeof value === "string") return expandText(value, path, to);
  if (Array.isArray(value)) {
    return Promise.all(value.map((inner, index) => expand(inner, [...path, `${index}`], to)));
  }
  if (!isJsonObject(value)) return value;
  const entries: [string, Json][] = [];
  for (const [key, inner] of Object.entries(value)) {
    entries.push([key, await expand(inner, [...path, key], to)]);
  }
  return Object.fromEntries(entries);
}

async function expandText(text: string, path: readonly string[], to: Expansion): Promise<Json> {
  const { text: whole, hasReference, missing } = filled(text, to.environment);
  for (const name of missing) to.problems.push(notSet(name, path, to.origin));
  // Kept as written: runs are stored, and a variable's value may be a secret.
  if (path[0] === "env" && path.length === 2) return text;
  if (!hasReference) return whole;
  const nodes = nodesAt(path);
  // `maxNewTokens: ${TOKENS}` is a text in YAML and a number in the schema.
  return takesString(nodes) ? whole : valueFromText(whole, nodes);
}

function notSet(name: string, path: readonly string[], origin: Origin): Problem {
  return {
    code: "ENV_MISSING",
    path,
    message: `${name} is not set`,
    origin,
    hint: `set ${name}, write \${${name}:-fallback}, or $\${${name}} to mean the text itself`,
  };
}
