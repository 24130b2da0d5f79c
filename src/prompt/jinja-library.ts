import * as library from "@huggingface/jinja";
import { type WrittenJson, WrittenNumber, type WrittenRow } from "../foundation/exact-json.ts";

// The library's type files refer to each other without file endings, which `nodenext` does not
// resolve. So this file declares what is used of the library, and is the only one that imports it.

/** A node of a parsed template, with the fields that are used here. */
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
  /** SelectExpression: the list to select from. */
  readonly lhs?: JinjaNode;
  readonly loopvar?: JinjaNode;
  readonly assignee?: JinjaNode;
  readonly name?: JinjaNode;
  readonly callerArgs?: readonly JinjaNode[] | null;
  /** SliceExpression */
  readonly start?: JinjaNode;
  readonly stop?: JinjaNode;
  readonly step?: JinjaNode;
}

/** A value as the library holds it. */
export interface RuntimeValue {
  readonly type: string;
  value: unknown;
  /** Methods of the value, such as `items` of an object. */
  readonly builtins: ReadonlyMap<string, RuntimeValue>;
}

/** The variables of one scope, with the scope around it. */
export interface Environment {
  readonly variables: Map<string, RuntimeValue>;
  readonly parent?: Environment;
  /** Declares a variable with a plain value; an existing one is an error. */
  set(name: string, value: unknown): RuntimeValue;
  setVariable(name: string, value: RuntimeValue): RuntimeValue;
  /** The variable's value, or a value of type `UndefinedValue`. */
  lookupVariable(name: string): RuntimeValue;
}

/** Arguments of a call, by position and by name. */
export type Arguments = readonly [readonly RuntimeValue[], ReadonlyMap<string, RuntimeValue>];

/** Methods of the library's interpreter that are called or overridden here; some are private. */
interface LibraryInterpreter {
  evaluate(node: JinjaNode | undefined, environment: Environment): RuntimeValue;
  /** The text of consecutive statements. */
  evaluateBlock(nodes: readonly JinjaNode[], environment: Environment): RuntimeValue;
  evaluateArguments(nodes: readonly JinjaNode[], environment: Environment): Arguments;
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

/** Parses a template. Its errors have no position and are of several classes. */
export function parseJinja(source: string): JinjaNode {
  return parse(tokenize(source, { trim_blocks: true, lstrip_blocks: true }));
}

const scratch = new Environment();

/** A JSON value, or undefined, in the library's form. Written numbers keep their text. */
export function toRuntime(value: WrittenJson | undefined): RuntimeValue {
  if (typeof value === "bigint") return writtenNumber(new WrittenNumber(String(value)));
  if (value instanceof WrittenNumber) return writtenNumber(value);
  return holdsWritten(value) ? container(value) : converted(value);
}

/** A number that calculates as a number and prints its own text. */
function writtenNumber(number: WrittenNumber): RuntimeValue {
  if (number.isSpecial) return converted(number.valueOf());
  const isWhole = /^-?\d+$/.test(number.text);
  // The library decides by the fraction whether a number is an integer; the value itself is then
  // replaced.
  return Object.assign(converted(isWhole ? 1 : 0.5), {
    value: number,
    toString: () => number.text,
    __bool__: () => converted(Number(number) !== 0),
  });
}

function holdsWritten(
  value: WrittenJson | undefined,
): value is Extract<WrittenJson, WrittenJson[] | WrittenRow> {
  if (typeof value === "bigint" || value instanceof WrittenNumber) return true;
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).some(holdsWritten);
}

/** A list or an object. The library cannot convert written numbers inside. */
function container(value: WrittenJson[] | WrittenRow): RuntimeValue {
  if (Array.isArray(value)) {
    const list = converted(value.map(() => null));
    list.value = value.map(toRuntime);
    return list;
  }
  const names = Object.keys(value);
  const object = converted(Object.fromEntries(names.map((name) => [name, null])));
  for (const name of names)
    (object.value as Map<string, unknown>).set(name, toRuntime(value[name]));
  return object;
}

function converted(value: unknown): RuntimeValue {
  // The library does not export its value classes; an environment is the only way to make values.
  scratch.variables.clear();
  const runtime = scratch.set("value", value);
  scratch.variables.clear();
  return runtime;
}

/**
 * The JSON value of a value in the library's form.
 *
 * @throws Error for functions and undefined, which are not data.
 */
export function fromRuntime({ type, value }: RuntimeValue): WrittenJson {
  if (type === "NullValue") return null;
  if (Array.isArray(value)) return value.map(fromRuntime);
  if (value instanceof Map) {
    return Object.fromEntries(
      Array.from(value as Map<string, RuntimeValue>, ([key, inner]) => [key, fromRuntime(inner)]),
    );
  }
  if (value === undefined || typeof value === "function") {
    throw new Error(`${kindNames[type] ?? type} is not data`);
  }
  return value as WrittenJson;
}

/** The library's types as words in messages. */
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
