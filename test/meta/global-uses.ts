import { lineAt, type SourceFile, type SyntaxNode, walk } from "./source-tree.ts";

/** A use of something that every module sees without importing it. */
export interface GlobalUse {
  path: string;
  name: string;
  line: number;
}

const functionTypes = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
]);

/**
 * Where the file uses one of `names` (`process`, `Date.now`, `new Date()`, `Date()`), not counting
 * names that an enclosing function or the file itself declares.
 */
export function globalUses(file: SourceFile, names: readonly string[]): GlobalUse[] {
  const wanted = new Set(names);
  const uses: GlobalUse[] = [];
  walk(file.program, (node, ancestors) => {
    const name = spelled(node, ancestors.at(-1));
    if (name === undefined || !wanted.has(name)) return;
    const first = name.replace("new ", "").split(/[.(]/)[0]!;
    if (isDeclared(first, ancestors)) return;
    uses.push({ path: file.path, name, line: lineAt(file, node.start) });
  });
  return uses;
}

/** The expression as a dotted name, without `globalThis`. */
function spelled(node: SyntaxNode, parent: SyntaxNode | undefined): string | undefined {
  if (node.type === "NewExpression" || node.type === "CallExpression") {
    const callee = node.callee as SyntaxNode;
    if ((node.arguments as unknown[]).length > 0 || callee.type !== "Identifier") return undefined;
    return `${node.type === "NewExpression" ? "new " : ""}${callee.name as string}()`;
  }
  if (node.type === "MemberExpression") {
    const object = node.object as SyntaxNode;
    const property = memberName(node);
    if (object.type !== "Identifier" || property === undefined) return undefined;
    return object.name === "globalThis" ? property : `${object.name as string}.${property}`;
  }
  if (node.type !== "Identifier" || isOnlyAName(node, parent)) return undefined;
  return node.name as string;
}

function memberName({ computed, property }: SyntaxNode): string | undefined {
  const { name, value } = property as SyntaxNode;
  return (computed ? value : name) as string | undefined;
}

/** True where an identifier names a key or a type and refers to no value. */
function isOnlyAName(node: SyntaxNode, parent: SyntaxNode | undefined): boolean {
  if (!parent) return false;
  if (parent.type.startsWith("TS") && parent.type !== "TSAsExpression") {
    return parent.expression !== node;
  }
  if (parent.type === "MemberExpression") return parent.property === node && !parent.computed;
  if (parent.type === "Property") return parent.key === node && !parent.shorthand;
  return (
    ["MethodDefinition", "PropertyDefinition", "LabeledStatement"].includes(parent.type) &&
    (parent.key === node || parent.label === node)
  );
}

function isDeclared(name: string, ancestors: readonly SyntaxNode[]): boolean {
  return ancestors.some((scope) => {
    if (scope.type !== "Program" && !functionTypes.has(scope.type)) return false;
    return declaredIn(scope).has(name);
  });
}

const declared = new WeakMap<SyntaxNode, Set<string>>();

/** Every name that a function or file binds: imports, parameters, variables, functions, classes. */
function declaredIn(scope: SyntaxNode): Set<string> {
  const known = declared.get(scope);
  if (known) return known;
  const names = new Set<string>();
  const bind = (pattern: unknown) => {
    if (pattern) for (const name of boundBy(pattern as SyntaxNode)) names.add(name);
  };
  for (const parameter of (scope.params as SyntaxNode[] | undefined) ?? []) bind(parameter);
  walk(scope, (node, ancestors) => {
    // What a nested function binds is invisible here; its own name is not.
    if (ancestors.slice(1).some(({ type }) => functionTypes.has(type))) return;
    if (node.type === "VariableDeclarator" || node.type === "FunctionDeclaration") bind(node.id);
    if (node.type === "ClassDeclaration") bind(node.id);
    if (/^Import(Default|Namespace)?Specifier$/.test(node.type)) bind(node.local);
    if (node.type === "CatchClause") bind(node.param);
  });
  declared.set(scope, names);
  return names;
}

/** The names that a pattern binds: an identifier, or what destructuring takes apart. */
function boundBy(pattern: SyntaxNode): string[] {
  const each = (children: unknown) =>
    (children as (SyntaxNode | null)[]).flatMap((child) => (child ? boundBy(child) : []));
  switch (pattern.type) {
    case "Identifier":
      return [pattern.name as string];
    case "ObjectPattern":
      return each(pattern.properties);
    case "ArrayPattern":
      return each(pattern.elements);
    case "Property":
      return boundBy(pattern.value as SyntaxNode);
    case "AssignmentPattern":
      return boundBy(pattern.left as SyntaxNode);
    case "RestElement":
      return boundBy(pattern.argument as SyntaxNode);
    default:
      return [];
  }
}
