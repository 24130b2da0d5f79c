import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import { nearest } from "../foundation/suggest.ts";
import { filterNames } from "./filters.ts";
import { type JinjaNode, parseJinja } from "./jinja-library.ts";
import { findFault, findUse } from "./template-position.ts";

/** The place of a template, for messages: `prompt measures`, `prompts.measures.system`. */
export interface TemplateSource {
  /** Name of the prompt, or of a part of it. */
  name: string;
  /** Path of the job file, if known. */
  file?: string;
}

/** Names of tests: `is defined`, and those of the library. */
const testNames = [
  ...["boolean", "callable", "odd", "even", "false", "true", "none", "string", "number", "integer"],
  ...["iterable", "mapping", "sequence", "lower", "upper", "defined", "undefined"],
];

/**
 * Parses a template as Jinja, with `trim_blocks` and `lstrip_blocks`: a tag alone on its line
 * leaves no empty line.
 *
 * @throws SluiceError `TEMPLATE_INVALID` with line and column, also for unknown filters and tests,
 *   and beyond `limits.maxTemplateSourceChars` and `maxTemplateDepth`.
 */
export function parseTemplate(source: string, place: TemplateSource): JinjaNode {
  let program: JinjaNode;
  try {
    program = parseBounded(source);
  } catch (cause) {
    const fault = findFault(source, parseBounded, messageOf);
    const hint = spacedName(fault?.inside ?? "");
    throw invalid(place, fault?.problem ?? messageOf(cause), fault?.at, source, cause, hint);
  }
  for (const node of nodesOf(program)) checkNames(node, source, place);
  return program;
}

/** @throws Error beyond `limits.maxTemplateSourceChars` and `maxTemplateDepth`. */
function parseBounded(source: string): JinjaNode {
  if (source.length > limits.maxTemplateSourceChars) {
    const most = limits.maxTemplateSourceChars.toLocaleString("en");
    throw new Error(
      `it is longer than ${most} characters: put long texts into a field of the rows`,
    );
  }
  const program = parseJinja(source);
  let level: readonly JinjaNode[] = [program];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limits.maxTemplateDepth) {
      const problem = `it goes more than ${limits.maxTemplateDepth} deep`;
      throw new Error(`${problem}: name a part of it with {% set %}, and use the name`);
    }
    level = level.flatMap(childrenOf);
  }
  return program;
}

/** The right expression for a column whose name has spaces: `{{ Review Text }}` is two names. */
function spacedName(tag: string): string | undefined {
  const begin = /^\{(?:\{-?\s*|%-?\s*(?:(?:el)?if|for\s+\w+\s+in)\s+)/.exec(tag)?.[0];
  const names = /^[\p{L}_][\p{L}\p{N}_]*(?:[ -]+[\p{L}\p{N}_]+)+/u;
  const name = names.exec(begin ? tag.slice(begin.length) : "")?.[0];
  return name && `for a column whose name has spaces write {{ row["${name}"] }}`;
}

/** A template error with its place in words, such as `line 2, column 7`. */
export function invalid(
  place: TemplateSource,
  problem: string,
  at?: number,
  source = "",
  cause?: unknown,
  hint?: string,
): SluiceError {
  const where = at === undefined ? "" : ` at ${lineAndColumn(source, at)}`;
  const detail = `${place.name}${where}: ${problem}`;
  const { file, name: field } = place;
  return new SluiceError("TEMPLATE_INVALID", detail, { file, field, cause, ...(hint && { hint }) });
}

function lineAndColumn(source: string, at: number): string {
  const before = source.slice(0, at).split("\n");
  return `line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

function checkNames(node: JinjaNode, source: string, place: TemplateSource): void {
  if (node.type === "FilterExpression" || node.type === "FilterStatement") {
    const name = filterNameOf(node);
    if (name !== undefined && !filterNames.includes(name)) {
      const problem = unknownName("filter", name, filterNames);
      throw invalid(place, problem, findUse(source, name), source);
    }
  }
  if (node.type === "TestExpression") {
    const name = String(node.test?.value);
    if (!testNames.includes(name)) {
      throw invalid(place, unknownName("test", name, testNames), findUse(source, name), source);
    }
  }
}

function unknownName(kind: string, name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return `there is no ${kind} ${name}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

/** The filter's name in `| name` or `| name(…)`. */
export function filterNameOf(node: JinjaNode): string | undefined {
  const called = node.filter?.type === "CallExpression" ? node.filter.callee : node.filter;
  return called?.type === "Identifier" ? String(called.value) : undefined;
}

/** The arguments in `| name(…)`; none for `| name`. */
export function filterArgumentsOf(node: JinjaNode): readonly JinjaNode[] {
  return node.filter?.type === "CallExpression" ? (node.filter.args ?? []) : [];
}

/** All statements and expressions below `root`, `root` first, without names of mere syntax. */
export function* nodesOf(root: JinjaNode): Generator<JinjaNode> {
  const waiting: JinjaNode[] = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    yield node;
    for (const child of childrenOf(node)) waiting.push(child);
  }
}

/** Names of filters, tests, keywords and of fields after a dot are syntax, not variables. */
function childrenOf(node: JinjaNode): JinjaNode[] {
  const syntax = new Set(["operator", "key"]);
  if (node.type === "MemberExpression" && !node.computed) syntax.add("property");
  if (node.type === "TestExpression") syntax.add("test");
  if (node.type.startsWith("Filter")) syntax.add("filter");
  const children: JinjaNode[] = [
    ...(node.type.startsWith("Filter") ? filterArgumentsOf(node) : []),
  ];
  for (const [key, value] of Object.entries(node)) {
    if (syntax.has(key)) continue;
    const values: unknown[] =
      value instanceof Map ? [...value.keys(), ...value.values()] : [value].flat();
    for (const inner of values) {
      if (typeof inner === "object" && inner !== null) children.push(inner as JinjaNode);
    }
  }
  return children;
}

/** An expression in a message, such as `order.items[0].name`; undefined if it is not a field. */
export function pathOf(node: JinjaNode | undefined): string | undefined {
  if (node?.type === "Identifier") return String(node.value);
  if (node?.type === "FilterExpression") return pathOf(node.operand);
  if (node?.type !== "MemberExpression") return undefined;
  const object = pathOf(node.object);
  if (object === undefined) return undefined;
  const { property } = node;
  if (!node.computed && property?.type === "Identifier") return `${object}.${property.value}`;
  if (property?.type === "StringLiteral") return `${object}.${property.value}`;
  return property?.type === "IntegerLiteral" ? `${object}[${property.value}]` : `${object}[…]`;
}

/** The message of any thrown value, without the library's prefix. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof RangeError) return "it goes too deep, or takes too much memory";
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text
    .replace(/^Parser Error: /, "")
    .replace(/, got \$\{.*?\} instead\./, "")
    .replace(/\. (\w+) !== \w+\.$/, ", found $1");
}
