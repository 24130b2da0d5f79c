import { dirname } from "node:path";
import { randomInteger, seededRandom } from "../../src/foundation/random.ts";
import {
  edgesOf,
  lineAt,
  type SourceFile,
  type SyntaxNode,
  sourceFiles,
  walk,
} from "../../test/meta/source-tree.ts";
import type { Mutation } from "./mutation.ts";

/** The rooms whose bugs are drawn. */
const rooms = /^src\/(?:run|engines|data)\//;
const unitTest = /^test\/(?!meta|simulation|integration|peers).*\.test\.ts$/;

/** A bug at a place that was drawn, with the tests that may see it: the nearest first. */
export interface DrawnMutation extends Omit<Mutation, "text"> {
  start: number;
  end: number;
  /** Tests that import the file, or one that does, and those of its folder; `tests`: all. */
  nearest: readonly string[];
}

const swapped: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "&&": "||",
  "||": "&&",
};

type Site = Pick<DrawnMutation, "start" | "end" | "replacement">;

/**
 * Bugs at places that only `seed` decides, at most one a file, in files that a unit test loads. A
 * bug is a swapped operator, a negated condition, a statement or an `await` less, a turned `true`
 * or a number next to 0, 1 or 2. Log lines stay: nobody relies on them.
 */
export function drawnMutations(seed: number, count: number): DrawnMutation[] {
  const files = sourceFiles("src", "test");
  const importers = new Map<string, string[]>();
  for (const { from, to, kind } of files.flatMap(edgesOf)) {
    if (kind !== "type") importers.set(to, [...(importers.get(to) ?? []), from]);
  }
  const sites = files
    .filter(({ path }) => rooms.test(path))
    .flatMap((file) => sitesOf(file).map((site) => ({ file, site })));
  const random = seededRandom(seed);
  const drawn = new Map<string, DrawnMutation>();
  while (drawn.size < count && sites.length > 0) {
    const at = randomInteger(random, sites.length);
    const { file, site } = sites[at]!;
    sites[at] = sites.at(-1)!;
    sites.pop();
    const { path } = file;
    if (drawn.has(path)) continue;
    const tests = testsOf(path, importers);
    if (tests.length === 0) continue;
    const folder = `${dirname(path).replace("src", "test")}/`;
    const isNear = ({ test, steps }: (typeof tests)[number]) =>
      steps <= tests[0]!.steps + 1 || test.startsWith(folder);
    const nearest = tests.filter(isNear);
    const { start, end, replacement } = site;
    const was = file.text.slice(start, end).replaceAll(/\s+/g, " ");
    drawn.set(path, {
      ...{ file: path, start, end, replacement },
      what: `line ${lineAt(file, start)}: ${was.slice(0, 60)} → ${replacement.slice(0, 60) || "nothing"}`,
      tests: tests.map(({ test }) => test),
      nearest: nearest.map(({ test }) => test),
    });
  }
  return [...drawn.values()];
}

/** The unit tests that load a file, those with the fewest imports between first. */
function testsOf(
  path: string,
  importers: ReadonlyMap<string, readonly string[]>,
): { test: string; steps: number }[] {
  const seen = new Set([path]);
  const found: { test: string; steps: number }[] = [];
  let level = [path];
  for (let steps = 1; level.length > 0; steps++) {
    const next = level.flatMap((file) => importers.get(file) ?? []);
    level = [...new Set(next)].filter((file) => !seen.has(file));
    for (const file of level) {
      seen.add(file);
      if (unitTest.test(file)) found.push({ test: file, steps });
    }
  }
  return found;
}

function sitesOf(file: SourceFile): Site[] {
  const sites: Site[] = [];
  walk(file.program, (node, ancestors) => {
    if (ancestors.some(({ type }) => isOfTypes(type))) return;
    const site = siteOf(node, file.text, ancestors.at(-1));
    if (site) sites.push(site);
  });
  return sites;
}

function isOfTypes(type: string): boolean {
  return /^TS(?!AsExpression|NonNull|Satisfies)/.test(type) || type === "ImportDeclaration";
}

function siteOf(node: SyntaxNode, text: string, parent: SyntaxNode | undefined): Site | undefined {
  const { start, end } = node;
  const part = (name: string) => node[name] as SyntaxNode;
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression": {
      const operator = node.operator as string;
      const replacement = swapped[operator];
      const sides = [part("left"), part("right")];
      const isText = sides.some(
        ({ type, value }) => type === "TemplateLiteral" || typeof value === "string",
      );
      if (replacement === undefined || (operator === "+" && isText)) return undefined;
      const at = text.indexOf(operator, part("left").end);
      return { start: at, end: at + operator.length, replacement };
    }
    case "IfStatement":
    case "ConditionalExpression":
    case "WhileStatement": {
      const { start, end } = part("test");
      return { start, end, replacement: `!(${text.slice(start, end)})` };
    }
    case "ExpressionStatement":
      return isLeftOut(part("expression"), text) ? { start, end, replacement: ";" } : undefined;
    case "ContinueStatement":
    case "ThrowStatement":
      return { start, end, replacement: ";" };
    case "AwaitExpression":
      return { start, end: part("argument").start, replacement: "" };
    case "Literal":
      return literalSite(node, parent);
    default:
      return undefined;
  }
}

/** Whether a statement can be left out so that the program still means something. */
function isLeftOut({ type, start, end }: SyntaxNode, text: string): boolean {
  if (!/^(?:Call|Await|Assignment|Update|Unary)Expression$/.test(type)) return false;
  return !/^super\(|\blog(?:ger)?\b/i.test(text.slice(start, end));
}

function literalSite(
  { start, end, value }: SyntaxNode,
  parent: SyntaxNode | undefined,
): Site | undefined {
  if (typeof value === "boolean") return { start, end, replacement: String(!value) };
  if (typeof value !== "number" || value > 2 || parent?.type === "UnaryExpression")
    return undefined;
  return { start, end, replacement: String(value + 1) };
}
