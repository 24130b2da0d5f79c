import { describe, expect, it } from "vitest";
import { lineAt, parseSource, type SourceFile, sourceFiles, walk } from "./source-tree.ts";

/** One idea in one file reads better than one idea in five: up to here a file need not be cut. */
const maxFileLines = 600;
const maxFunctionLines = 70;
const maxColumns = 100;
/** A literal may reach over the edge this far: the formatter cannot break it. */
const maxLiteralColumns = 120;

const functionTypes = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
]);

/**
 * Lines of each function beyond the limit. A callback of `describe` groups tests as a file does
 * and is bounded by the file.
 */
function longFunctions(file: SourceFile): string[] {
  const long: string[] = [];
  walk(file.program, (node, ancestors) => {
    if (!functionTypes.has(node.type)) return;
    const parent = ancestors.at(-1);
    const isGroup =
      parent?.type === "CallExpression" &&
      /^describe\b/.test(file.text.slice(parent.start, parent.start + 12));
    const [first, last] = [lineAt(file, node.start), lineAt(file, node.end)];
    const lines = last - first + 1;
    if (!isGroup && lines > maxFunctionLines) long.push(`${file.path}:${first}: ${lines} lines`);
  });
  return long;
}

/**
 * Lines beyond 100 columns. Comments and code must fit. Where a string, template or regular
 * expression covers the edge, the line may reach 120 columns in src and go on anywhere else
 * (recorded messages and texts of documents stay in one piece).
 */
function longLines(file: SourceFile): string[] {
  const suspects = new Map<number, number>();
  let start = 0;
  file.lines.forEach((line, index) => {
    if (line.length > maxColumns) suspects.set(index + 1, start + maxColumns);
    start += line.length + 1;
  });
  if (suspects.size === 0) return [];
  const excused = new Set<number>();
  walk(file.program, (node) => {
    if (node.type !== "Literal" && node.type !== "TemplateElement") return;
    for (const [line, edge] of suspects) {
      // A delimiter or the comma after the literal may stand beyond it.
      if (node.start <= edge && node.end + 2 >= edge) excused.add(line);
    }
  });
  const isSource = file.path.startsWith("src/");
  return [...suspects.keys()]
    .filter((line) => {
      const free = !isSource || file.lines[line - 1]!.length <= maxLiteralColumns;
      return !(free && excused.has(line));
    })
    .map((line) => `${file.path}:${line}: ${file.lines[line - 1]!.length} columns`);
}

const isGenerated = /^\/\/ Written by npm run docs/;

describe("sizes", () => {
  const files = sourceFiles("src", "test", "bench", "scripts", "examples");

  it("sees the tree", () => {
    expect(files.length).toBeGreaterThanOrEqual(80);
  });

  it(`files have at most ${maxFileLines} lines`, () => {
    // What follows from the schema grows with it, and nobody edits it.
    const written = files.filter(
      ({ lines }) => !lines.slice(0, 3).some((it) => isGenerated.test(it)),
    );
    const long = written.filter(({ lines }) => lines.length - 1 > maxFileLines);
    expect(long.map(({ path, lines }) => `${path}: ${lines.length - 1} lines`)).toEqual([]);
  });

  it(`functions have at most ${maxFunctionLines} lines`, () => {
    expect(files.flatMap(longFunctions)).toEqual([]);
  });

  it(`lines have at most ${maxColumns} columns`, () => {
    expect(files.flatMap(longLines)).toEqual([]);
  });

  it("catches a long function and a long comment, and passes a long string", () => {
    const body = "  work();\n".repeat(maxFunctionLines);
    expect(longFunctions(parseSource("src/a.ts", `const f = () => {\n${body}};\n`))).toHaveLength(
      1,
    );
    expect(longLines(parseSource("src/a.ts", `// ${"x ".repeat(60)}\n`))).toHaveLength(1);
    expect(longLines(parseSource("src/a.ts", `const s = "${"x ".repeat(48)}";\n`))).toEqual([]);
    expect(longLines(parseSource("src/a.ts", `const s = "${"x ".repeat(90)}";\n`))).toHaveLength(1);
  });
});
