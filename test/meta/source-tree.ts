import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative, sep } from "node:path";
import { parseSync, visitorKeys } from "oxc-parser";

/** The checkout. */
export const root = join(import.meta.dirname, "..", "..");

/** A node of the syntax tree, as ESTree names it. */
export interface SyntaxNode {
  type: string;
  start: number;
  end: number;
  [key: string]: unknown;
}

/** One module that a file asks for, by whatever means. */
export interface Import {
  /** As written; undefined where it is computed. */
  specifier: string | undefined;
  kind: "static" | "type" | "dynamic";
  line: number;
}

/** One parsed source file. */
export interface SourceFile {
  /** From the root, with `/`. */
  path: string;
  text: string;
  lines: readonly string[];
  program: SyntaxNode;
  imports: readonly Import[];
  comments: readonly { start: number; end: number }[];
  /** What the parser refused. */
  errors: readonly string[];
}

const skippedFolders = new Set(["node_modules", "dist", ".cache", ".git", ".data", "out"]);

/** Paths of the files under `folder` (from the root) that `accept` takes, sorted. */
export function filesUnder(folder: string, accept: (path: string) => boolean): string[] {
  const entries = readdirSync(join(root, folder), { withFileTypes: true });
  const paths = entries.flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    if (entry.isDirectory()) {
      return skippedFolders.has(entry.name) ? [] : filesUnder(path, accept);
    }
    return entry.isFile() && accept(path) ? [path] : [];
  });
  return paths.sort();
}

const parsed = new Map<string, SourceFile>();

/** The parsed file at `path` (from the root); each is parsed once a process. */
export function sourceFile(path: string): SourceFile {
  const known = parsed.get(path);
  if (known) return known;
  const file = parseSource(path, readFileSync(join(root, path), "utf8"));
  parsed.set(path, file);
  return file;
}

/** Every TypeScript file under the folders, parsed. */
export function sourceFiles(...folders: string[]): SourceFile[] {
  return folders
    .flatMap((folder) => filesUnder(folder, (path) => path.endsWith(".ts")))
    .map(sourceFile);
}

/** A file made of `text`; what tests of the rules themselves are fed with. */
export function parseSource(path: string, text: string): SourceFile {
  const { program, comments, errors } = parseSync(path, text);
  const file = {
    path,
    text,
    lines: text.split("\n"),
    program: program as unknown as SyntaxNode,
    comments,
    errors: errors.map((error) => error.message),
  };
  return { ...file, imports: importsOf(file) };
}

/** The line (from 1) of an offset in the file. */
export function lineAt(file: { text: string }, offset: number): number {
  let line = 1;
  for (let at = file.text.indexOf("\n"); at >= 0 && at < offset; ) {
    line++;
    at = file.text.indexOf("\n", at + 1);
  }
  return line;
}

/** Calls `visit` for each node under `node`, parents first, with its ancestors, nearest last. */
export function walk(
  node: SyntaxNode,
  visit: (node: SyntaxNode, ancestors: readonly SyntaxNode[]) => void,
  ancestors: SyntaxNode[] = [],
): void {
  visit(node, ancestors);
  ancestors.push(node);
  for (const key of visitorKeys[node.type] ?? []) {
    const child = node[key];
    for (const each of Array.isArray(child) ? child : [child]) {
      if (isNode(each)) walk(each, visit, ancestors);
    }
  }
  ancestors.pop();
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value;
}

function importsOf(file: { text: string; program: SyntaxNode }): Import[] {
  const found: Import[] = [];
  walk(file.program, (node) => {
    const kind = importKind(node);
    if (kind === undefined || !isNode(node.source)) return;
    const { type, value } = node.source;
    const specifier = type === "Literal" && typeof value === "string" ? value : undefined;
    found.push({ specifier, kind, line: lineAt(file, node.start) });
  });
  return found;
}

function importKind(node: SyntaxNode): Import["kind"] | undefined {
  switch (node.type) {
    case "ImportDeclaration":
      return node.importKind === "type" ? "type" : "static";
    case "ExportAllDeclaration":
    case "ExportNamedDeclaration":
      return node.exportKind === "type" ? "type" : "static";
    case "ImportExpression":
      return "dynamic";
    case "TSImportType":
      return "type";
    default:
      return undefined;
  }
}

/** An import of another file of the project. */
export interface Edge {
  from: string;
  to: string;
  kind: Import["kind"];
  line: number;
}

/** The relative imports of a file, with the paths (from the root) that they name. */
export function edgesOf(file: SourceFile): Edge[] {
  return file.imports.flatMap(({ specifier, kind, line }) =>
    specifier?.startsWith(".")
      ? [{ from: file.path, to: posix.join(posix.dirname(file.path), specifier), kind, line }]
      : [],
  );
}

/** The package of an import (`@scope/name/deep` → `@scope/name`); undefined for anything else. */
export function packageOf(specifier: string): string | undefined {
  if (/^(\.|\/|node:|#|file:|data:)/.test(specifier)) return undefined;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** `path` from the root, with `/`. */
export function fromRoot(path: string): string {
  return relative(root, path).split(sep).join("/");
}

/** The folder of a path from the root. */
export function folderOf(path: string): string {
  return dirname(path);
}
