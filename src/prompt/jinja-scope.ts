import type { JinjaNode } from "./jinja-library.ts";
import { filterArgumentsOf, filterNameOf, nodesOf } from "./jinja-syntax.ts";

/** Names that are constants, whatever fields the row has. */
export const constantNames: ReadonlySet<string> = new Set([
  ...["true", "false", "none"],
  ...["True", "False", "None"],
]);

/** Functions of the language. A field with the same name hides them. */
export const functionNames: ReadonlySet<string> = new Set([
  "range",
  "namespace",
  "raise_exception",
]);

/** Names that macros and call blocks declare. */
const macroNames = new Set(["caller", "varargs", "kwargs"]);

/** Facts about a template, found once for all renders. */
export interface Scope {
  /** All names that the template reads, wherever their values come from. */
  names: readonly string[];
  /** Names that the template itself does not declare: fields of the row, `item`; always `loop`. */
  variables: readonly string[];
  /** Expressions that may be undefined: those with `default(…)`, `is defined`, `is undefined`. */
  guarded: ReadonlySet<JinjaNode>;
  /** Expressions that are called as functions. */
  called: ReadonlySet<JinjaNode>;
}

/** Finds the scope of a parsed template. */
export function scopeOf(program: JinjaNode): Scope {
  const names = new Set<string>();
  const declared = new Set<string>();
  const guarded = new Set<JinjaNode>();
  const called = new Set<JinjaNode>();
  let hasMacros = false;
  for (const node of nodesOf(program)) {
    if (node.type === "Identifier") names.add(String(node.value));
    if (node.callee !== undefined) called.add(node.callee);
    if (node.type === "Macro" || node.type === "CallStatement") hasMacros = true;
    for (const name of declaredBy(node)) declared.add(name);
    if (isGuard(node)) guard(node.operand, guarded);
  }
  const isFree = (name: string) =>
    !declared.has(name) &&
    !constantNames.has(name) &&
    !functionNames.has(name) &&
    !(hasMacros && macroNames.has(name));
  return { names: [...names], variables: [...names].filter(isFree), guarded, called };
}

function* declaredBy(node: JinjaNode): Generator<string> {
  if (node.type === "For") yield* targetNames(node.loopvar);
  if (node.type === "Set") yield* targetNames(node.assignee);
  if (node.type === "Macro") yield String(node.name?.value);
  const parameters =
    node.type === "Macro" ? node.args : node.type === "CallStatement" ? node.callerArgs : [];
  for (const parameter of parameters ?? []) yield* targetNames(parameter.key ?? parameter);
}

function* targetNames(target: JinjaNode | undefined): Generator<string> {
  if (target?.type === "Identifier") yield String(target.value);
  if (target?.type !== "TupleLiteral") return;
  for (const inner of target.value as readonly JinjaNode[]) yield* targetNames(inner);
}

function isGuard(node: JinjaNode): boolean {
  if (node.type === "FilterExpression") return isDefault(node);
  return (
    node.type === "TestExpression" && ["defined", "undefined"].includes(String(node.test?.value))
  );
}

/** True for `| default`, `| default(…)` and their short form `| d`. */
export function isDefault(node: JinjaNode): boolean {
  return ["default", "d"].includes(filterNameOf(node) ?? "");
}

/** Marks an expression and every part of it that may make it undefined. */
function guard(node: JinjaNode | undefined, guarded: Set<JinjaNode>): void {
  if (node === undefined || guarded.has(node)) return;
  guarded.add(node);
  if (node.type === "MemberExpression") guard(node.object, guarded);
  if (node.type === "FilterExpression") guard(node.operand, guarded);
  if (node.type === "FilterExpression" && isDefault(node)) {
    for (const argument of filterArgumentsOf(node)) guard(argument, guarded);
  }
  if (["and", "or"].includes(node.operator?.value ?? "")) {
    guard(node.left, guarded);
    guard(node.right, guarded);
  }
  if (node.type === "Ternary") {
    guard(node.trueExpr, guarded);
    guard(node.falseExpr, guarded);
  }
}
