import * as library from "@huggingface/jinja";
import type { Json } from "../foundation/json.ts";

// The library's type files name each other without endings, which `nodenext` does not resolve; what
// is used of it is declared here, and this is the one file that imports it.

/** A node of a parsed template, as far as this wing looks at it. */
export interface JinjaNode {
  readonly type: string;
  readonly value?: unknown;
  readonly body?: readonly JinjaNode[];
  /** MemberExpression */
  readonly object?: JinjaNode;
  readonly property?: JinjaNode;
  readonly computed?: boolean;
  /** FilterExpression, TestExpression, FilterStatement */
  readonly operand?: JinjaNode;
  readonly filter?: JinjaNode;
  readonly test?: JinjaNode;
  /** CallExpression */
  readonly callee?: JinjaNode;
  readonly args?: readonly JinjaNode[];
  /** KeywordArgumentExpression */
  readonly key?: JinjaNode;
  /** BinaryExpression, Ternary, For, Set, Macro, UnaryExpression */
  readonly operator?: { readonly value: string };
  readonly left?: JinjaNode;
  readonly right?: JinjaNode;
  readonly argument?: JinjaNode;
  readonly trueExpr?: JinjaNode;
  readonly falseExpr?: JinjaNode;
  readonly iterable?: JinjaNode;
  readonly loopvar?: JinjaNode;
  readonly assignee?: JinjaNode;
  readonly name?: JinjaNode;
  readonly callerArgs?: readonly JinjaNode[] | null;
}

/** A value inside the template library. */
export interface RuntimeValue {
  readonly type: string;
  readonly value: unknown;
  /** Methods and the like, such as `items` of an object. */
  readonly builtins: ReadonlyMap<string, RuntimeValue>;
}

/** The variables of one scope, and the scope around it. */
export interface Environment {
  readonly variables: Map<string, RuntimeValue>;
  readonly parent?: Environment;
  /** Declares a variable with a plain value; one that is there already is an error. */
  set(name: string, value: unknown): RuntimeValue;
  setVariable(name: string, value: RuntimeValue): RuntimeValue;
  /** The variable, or a value of type `UndefinedValue`. */
  lookupVariable(name: string): RuntimeValue;
}

interface LibraryInterpreter {
  evaluate(node: JinjaNode | undefined, environment: Environment): RuntimeValue;
}

interface JinjaLibrary {
  Environment: new (parent?: Environment) => Environment;
  Interpreter: new (globals: Environment) => LibraryInterpreter;
  tokenize(
    source: string,
    options: { trim_blocks: boolean; lstrip_blocks: boolean },
  ): readonly unknown[];
  parse(tokens: readonly unknown[]): JinjaNode;
}

const { Environment, Interpreter, parse, tokenize } = library as unknown as JinjaLibrary;

export { Environment as JinjaEnvironment, Interpreter as JinjaInterpreter };

/**
 * Parses a template. The errors that it throws name no position, and are of several classes.
 */
export function parseJinja(source: string): JinjaNode {
  return parse(tokenize(source, { trim_blocks: true, lstrip_blocks: true }));
}

const scratch = new Environment();

/** Any JSON value, or undefined, as the library holds it. */
export function toRuntime(value: Json | undefined): RuntimeValue {
  // The library exports no classes of values; an environment is the only way in.
  scratch.variables.clear();
  const converted = scratch.set("value", value);
  scratch.variables.clear();
  return converted;
}

/**
 * The JSON value that the library holds.
 *
 * @throws Error for what is no data: functions, undefined.
 */
export function fromRuntime({ type, value }: RuntimeValue): Json {
  if (type === "NullValue") return null;
  if (Array.isArray(value)) return value.map(fromRuntime);
  if (value instanceof Map) {
    return Object.fromEntries(
      Array.from(value as Map<string, RuntimeValue>, ([key, inner]) => [key, fromRuntime(inner)]),
    );
  }
  if (value === undefined || typeof value === "function") {
    throw new Error(`${kindNames[type] ?? type} is no data`);
  }
  return value as Json;
}

/** The library's types in words, for messages. */
export const kindNames: Readonly<Record<string, string>> = {
  IntegerValue: "a whole number",
  FloatValue: "a number",
  NumericValue: "a number",
  StringValue: "a text",
  BooleanValue: "a boolean",
  ObjectValue: "an object",
  NamespaceValue: "a namespace",
  ArrayValue: "a list",
  TupleValue: "a list",
  NullValue: "null",
  UndefinedValue: "undefined",
  FunctionValue: "a function",
};
