import { SluiceError } from "../foundation/errors.ts";
import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import { limits } from "../foundation/limits.ts";
import { fieldIn, testOf } from "./element-tests.ts";
import { missing, wrongType } from "./field-errors.ts";
import { elementFilters, filterNames, ownFilters } from "./filters.ts";
import {
  type Arguments,
  type Environment,
  fromRuntime,
  JinjaEnvironment,
  JinjaInterpreter,
  type JinjaNode,
  kindNames,
  type RuntimeValue,
  toRuntime,
} from "./jinja-library.ts";
import { calculated, exactNumber } from "./jinja-numbers.ts";
import { constantNames, functionNames, isDefault, type Scope } from "./jinja-scope.ts";
import {
  filterArgumentsOf,
  filterNameOf,
  messageOf,
  pathOf,
  type TemplateSource,
} from "./jinja-syntax.ts";
import { countOf, letterAt, matchCount, textSlice } from "./long-text.ts";
import {
  assertChars,
  assertElements,
  assertWidth,
  extentOf,
  TemplateExcess,
  TemplateWork,
} from "./template-work.ts";
import type { FilterArguments } from "./usual-filters.ts";
import { isNumber } from "./value-text.ts";

const undefinedValue = toRuntime(undefined);

const globals = new JinjaEnvironment();
for (const [name, value] of [
  ["true", true],
  ["false", false],
  ["none", null],
] as const) {
  globals.set(name, value);
  globals.set(name[0]!.toUpperCase() + name.slice(1), value);
}
globals.set("range", range);
globals.set("raise_exception", (message: unknown) => {
  throw new Error(String(message));
});

function range(first: number, second?: number, stepWidth = 1): number[] {
  // Numbers of a row may be `WrittenNumber`.
  const step = Number(stepWidth);
  const [start, stop] = second === undefined ? [0, Number(first)] : [Number(first), Number(second)];
  if (!Number.isInteger(step) || step === 0) throw new Error("range takes a whole step but 0");
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (!(count <= limits.maxElements)) throw new Error(`range gives over ${limits.maxElements}`);
  return Array.from({ length: count }, (_, place) => start + place * step);
}

/**
 * Jinja in which an absent name or field is an error, unless the template guards it. The library's
 * interpreter would print nothing for it.
 */
export class StrictInterpreter extends JinjaInterpreter {
  readonly #scope: Scope;
  readonly #place: TemplateSource;
  /** Names of the current row and of `extra`, for messages. */
  #rowNames: () => Iterable<string> = () => [];
  #work = new TemplateWork();
  #lastText = "";
  #isLastPlain = true;

  constructor(scope: Scope, place: TemplateSource) {
    super(globals);
    this.#scope = scope;
    this.#place = place;
  }

  /** Evaluates a node for a row. Names in `extra` hide the row's fields. */
  over(node: JinjaNode, row: WrittenRow, extra: WrittenRow | undefined): RuntimeValue {
    this.#work = new TemplateWork();
    this.#rowNames = () => [...Object.keys(row), ...Object.keys(extra ?? {})];
    try {
      return this.evaluate(node, this.#environmentOf(row, extra));
    } catch (thrown) {
      throw this.#failed(thrown);
    }
  }

  #environmentOf(row: WrittenRow, extra: WrittenRow | undefined): Environment {
    const environment = new JinjaEnvironment(globals);
    for (const name of this.#scope.names) {
      if (constantNames.has(name)) continue;
      const holder = [extra, row].find((each) => each !== undefined && Object.hasOwn(each, name));
      const value = holder === undefined && name === "row" ? row : holder?.[name];
      if (value === undefined) continue;
      this.#work.held(value);
      environment.setVariable(name, toRuntime(value));
    }
    return environment;
  }

  override evaluate(node: JinjaNode | undefined, environment: Environment): RuntimeValue {
    if (node?.type === "Evaluated") return node.value as RuntimeValue;
    this.#work.spend(1);
    if (node?.type === "Identifier") return this.#identifier(node, environment);
    if (node?.type === "MemberExpression") return this.#member(node, environment);
    const value = this.#computed(node, environment);
    this.#work.made(value);
    return value;
  }

  /** As in the library, but printed text is counted as work too. */
  override evaluateBlock(nodes: readonly JinjaNode[], environment: Environment): RuntimeValue {
    let text = "";
    for (const node of nodes) {
      const value = this.evaluate(node, environment);
      if (value.type === "NullValue" || value.type === "UndefinedValue") continue;
      this.#work.created(value, true);
      const printed = String(value);
      // A text is appended unchanged and was charged when it was made.
      if (value.type !== "StringValue") this.#work.made({ value: printed });
      text += printed;
      assertChars(text.length);
    }
    return toRuntime(text);
  }

  /** As in the library, but each argument is a step: `f(*list)` makes a list. */
  override evaluateArguments(nodes: readonly JinjaNode[], environment: Environment): Arguments {
    const given = super.evaluateArguments(nodes, environment);
    this.#work.spend(given[0].length + given[1].size);
    return given;
  }

  #computed(node: JinjaNode | undefined, environment: Environment): RuntimeValue {
    switch (node?.type) {
      case "FilterExpression":
        return this.#filter(node, environment);
      case "FilterStatement": {
        const operand = this.#library({ type: "Program", body: node.body }, environment);
        return this.#applyFilter(node, operand, environment);
      }
      case "BinaryExpression":
        return this.#binary(node, environment);
      case "UnaryExpression":
        return this.#unary(node, environment);
      case "TestExpression":
        return this.#test(node, environment);
      case "For":
        return this.#for(node, environment);
      case "CallExpression":
        return this.#call(node, environment);
      default:
        return this.#library(node, environment);
    }
  }

  #library(node: JinjaNode | undefined, environment: Environment): RuntimeValue {
    return super.evaluate(node, environment);
  }

  /** Evaluates in the library. An error there is due to the row's types, not to the template. */
  #typed(node: JinjaNode, path: string | undefined, environment: Environment): RuntimeValue {
    try {
      return this.#library(node, environment);
    } catch (thrown) {
      if (!isPlainError(thrown)) throw thrown;
      throw wrongType(this.#place, inWords(thrown), path);
    }
  }

  #for(node: JinjaNode, environment: Environment): RuntimeValue {
    const { iterable } = node;
    const source = iterable?.type === "SelectExpression" ? iterable.lhs : iterable;
    const elements = this.evaluate(source, new JinjaEnvironment(environment));
    this.#work.spend(Array.isArray(elements.value) ? elements.value.length : 1);
    const known = evaluated(elements);
    const looped = source === iterable ? known : { ...iterable!, lhs: known };
    return this.#typed({ ...node, iterable: looped }, pathOf(iterable), environment);
  }

  #binary(node: JinjaNode, environment: Environment): RuntimeValue {
    if (["and", "or"].includes(node.operator?.value ?? "")) return this.#library(node, environment);
    const left = this.evaluate(node.left, environment);
    const right = this.evaluate(node.right, environment);
    const sides = [pathOf(node.left), pathOf(node.right)] as const;
    const path = (right.type === "NullValue" ? sides[1] : undefined) ?? sides[0] ?? sides[1];
    this.#work.read(right);
    if (node.operator?.value === "~") return this.#joined(left, right);
    if (node.operator?.value === "+") assertAddable(left, right, this.#place, path);
    const number = calculated(node.operator?.value ?? "", left, right);
    if (number !== undefined) return number;
    const known = { ...node, left: evaluated(left), right: evaluated(right) };
    return this.#typed(known, path, environment);
  }

  /** Both as they are printed. */
  #joined(...values: readonly RuntimeValue[]): RuntimeValue {
    const texts = values.map((value) => {
      if (value.type === "NullValue" || value.type === "UndefinedValue") return "";
      this.#work.created(value, true);
      return String(value);
    });
    assertChars(texts.reduce((chars, { length }) => chars + length, 0));
    return toRuntime(texts.join(""));
  }

  #unary(node: JinjaNode, environment: Environment): RuntimeValue {
    const argument = this.evaluate(node.argument, environment);
    const number = exactNumber(argument);
    if (typeof number === "bigint" && node.operator?.value === "-") return toRuntime(-number);
    const known = { ...node, argument: evaluated(argument) };
    return this.#typed(known, pathOf(node.argument), environment);
  }

  #test(node: JinjaNode, environment: Environment): RuntimeValue {
    const operand = this.evaluate(node.operand, environment);
    const number = exactNumber(operand);
    // All tests except these look at the type of the value.
    const isParity = ["odd", "even"].includes(String(node.test?.value));
    const tested =
      isParity && typeof number === "bigint" ? toRuntime(Number(number % 2n)) : operand;
    const known = { ...node, operand: evaluated(tested) };
    return this.#typed(known, pathOf(node.operand), environment);
  }

  #call(node: JinjaNode, environment: Environment): RuntimeValue {
    try {
      const value = this.#library(node, environment);
      this.#work.created(value);
      return value;
    } catch (thrown) {
      throw isPlainError(thrown) ? this.#failed(thrown) : thrown;
    }
  }

  #failed(thrown: unknown): SluiceError {
    if (thrown instanceof SluiceError) return thrown;
    const code = thrown instanceof TemplateExcess ? "TEMPLATE_TOO_COSTLY" : "TEMPLATE_FAILED";
    return new SluiceError(code, `${this.#place.name}: ${inWords(thrown)}`, { cause: thrown });
  }

  #identifier(node: JinjaNode, environment: Environment): RuntimeValue {
    const name = String(node.value);
    const value = environment.lookupVariable(name);
    const isField =
      value.type === "FunctionValue"
        ? this.#scope.called.has(node) || !functionNames.has(name)
        : value.type !== "UndefinedValue" || isDeclared(name, environment);
    if (isField) return value;
    return this.#absent(node, name, this.#rowNames);
  }

  /** Undefined if the template guards the expression; otherwise throws. */
  #absent(node: JinjaNode, path: string, names?: () => Iterable<string>): RuntimeValue {
    if (this.#scope.guarded.has(node)) return undefinedValue;
    throw missing(this.#place, path, names?.());
  }

  #member(node: JinjaNode, environment: Environment): RuntimeValue {
    const object = this.evaluate(node.object, environment);
    const path = pathOf(node) ?? "a field of an expression";
    if (object.type === "UndefinedValue") return this.#absent(node, pathOf(node.object) ?? path);
    let { property } = node;
    if (property?.type === "SliceExpression") {
      const cut = this.#slice(object, property, environment);
      if (cut !== undefined) return cut;
    } else if (node.computed) {
      const key = this.evaluate(property, environment);
      if (typeof object.value === "string" && key.type === "IntegerValue") {
        const letter = this.#letter(object.value, Number(exactNumber(key)));
        return letter === undefined ? this.#absent(node, path) : toRuntime(letter);
      }
      property = evaluated(key);
    }
    let value: RuntimeValue = undefinedValue;
    try {
      value = this.#library({ ...node, object: evaluated(object), property }, environment);
    } catch (thrown) {
      if (!isPlainError(thrown)) throw thrown;
      if (this.#scope.guarded.has(node)) return undefinedValue;
      throw wrongType(this.#place, inWords(thrown), path);
    }
    if (property?.type === "SliceExpression") this.#work.created(value);
    const isCalled = this.#scope.called.has(node);
    if (isCalled) value = bounded(object, String(property?.value), value);
    if (isCalled && value.type !== "FunctionValue") {
      // A field named like a method must not hide the method: `order.items()`.
      return object.builtins.get(String(property?.value)) ?? value;
    }
    if (value.type !== "UndefinedValue" && (isCalled || value.type !== "FunctionValue"))
      return value;
    return this.#noField(node, object, property, path);
  }

  #letter(text: string, at: number): string | undefined {
    if (this.#isPlain(text)) return text.at(at);
    this.#work.passed(reachOf(text, at));
    return letterAt(text, at);
  }

  /** True if each unit of a text is a letter. Loops ask of the same text again and again. */
  #isPlain(text: string): boolean {
    if (text !== this.#lastText) {
      this.#work.passed(text.length);
      this.#lastText = text;
      this.#isLastPlain = !/[\ud800-\udbff]/.test(text);
    }
    return this.#isLastPlain;
  }

  /** Slices a text without a list of its letters; undefined if the library should slice. */
  #slice(
    { value: text }: RuntimeValue,
    { start, stop, step }: JinjaNode,
    environment: Environment,
  ): RuntimeValue | undefined {
    if (typeof text !== "string") return undefined;
    const [first = 0, end = text.length] = [start, stop].map(
      (bound) => this.evaluate(bound, environment).value as number | undefined,
    );
    if (step === undefined && Number.isInteger(first) && Number.isInteger(end)) {
      if (this.#isPlain(text)) return toRuntime(text.slice(first, end));
      this.#work.passed(reachOf(text, first) + reachOf(text, end));
      return toRuntime(textSlice(text, first, end));
    }
    assertElements(text.length);
    return undefined;
  }

  #noField(
    node: JinjaNode,
    object: RuntimeValue,
    property: JinjaNode | undefined,
    path: string,
  ): RuntimeValue {
    const key = property?.type === "Evaluated" ? (property.value as RuntimeValue) : property;
    if (object.value instanceof Map) {
      const inner = object.value.get(String(key?.value)) as RuntimeValue | undefined;
      const fields = object.value as Map<string, unknown>;
      return inner ?? this.#absent(node, path, () => fields.keys());
    }
    if (typeof key?.value === "number" || this.#scope.guarded.has(node)) {
      return this.#absent(node, path);
    }
    throw wrongType(this.#place, noFieldText(object.type, String(key?.value)), path);
  }

  #filter(node: JinjaNode, environment: Environment): RuntimeValue {
    const operand = this.evaluate(node.operand, environment);
    if (isDefault(node)) return this.#default(node, operand, environment);
    if (operand.type === "UndefinedValue") {
      return this.#absent(node, pathOf(node) ?? `the input of ${filterNameOf(node)}`);
    }
    return this.#applyFilter(node, operand, environment);
  }

  /** As in the library, but the fallback is evaluated only if it is needed. */
  #default(node: JinjaNode, operand: RuntimeValue, environment: Environment): RuntimeValue {
    // As Jinja names its first argument.
    const given = filterArgumentsOf(node).map((argument) =>
      argument.key?.value === "default_value" ? (argument.value as JinjaNode) : argument,
    );
    const isMissing = operand.type === "UndefinedValue";
    if (given.length === 0) return isMissing ? toRuntime("") : operand;
    if (given.length === 1 && given[0]?.key === undefined && !isMissing) return operand;
    const callee = { type: "Identifier", value: "default" };
    const filter = { type: "CallExpression", callee, args: given };
    const known = { ...node, operand: evaluated(operand), filter };
    return this.#typed(known, pathOf(node.operand), environment);
  }

  #applyFilter(node: JinjaNode, operand: RuntimeValue, environment: Environment): RuntimeValue {
    const name = filterNameOf(node) ?? "";
    const own = Object.hasOwn(ownFilters, name) ? ownFilters[name] : undefined;
    try {
      if (elementFilters.has(name) && Array.isArray(operand.value)) {
        const changed = this.#eachElement(name, operand.value, node, environment);
        if (changed !== undefined) return changed;
      }
      if (own !== undefined) {
        this.#work.read(operand);
        const input = fromRuntime(operand);
        const value = toRuntime(own(input, this.#filterArguments(node, environment)));
        this.#work.created(value, true);
        return value;
      }
      if (longFilters.has(name)) this.#assertLength(name, operand, node, environment);
      const filter = name === "tojson" ? withIndent(node) : node.filter;
      const known = { ...node, type: "FilterExpression", operand: evaluated(operand), filter };
      // In the library, `first` and `last` of an empty list have no value at all.
      const value = this.#library(known, environment) as RuntimeValue | undefined;
      if (value === undefined) {
        return this.#absent(node, `${pathOf(node.operand) ?? "a list"} | ${name}`);
      }
      if (value !== operand) this.#work.created(value);
      return value;
    } catch (thrown) {
      if (!isPlainError(thrown)) throw thrown;
      throw wrongType(this.#place, inWords(thrown), pathOf(node.operand));
    }
  }

  /** Checks the length before the library makes a text that is too long. */
  #assertLength(
    name: string,
    operand: RuntimeValue,
    node: JinjaNode,
    environment: Environment,
  ): void {
    this.#work.read(operand);
    if (filterArgumentsOf(node).length === 0) return;
    const { positional, named } = this.#filterArguments(node, environment);
    if (name === "replace") return assertReplaced(operand.value, positional);
    const { value } = operand;
    const { chars, elements, depth } = extentOf(operand);
    const lines = typeof value === "string" ? countOf(value, "\n") : elements * depth;
    if (name === "indent") assertElements(lines);
    for (const width of [...positional, ...Object.values(named)]) {
      if (!isNumber(width)) continue;
      assertWidth(name, width);
      assertChars(chars + lines * Number(width));
    }
  }

  /** Undefined for `map(attribute=…)`, which the library handles. */
  #eachElement(
    name: string,
    elements: readonly RuntimeValue[],
    node: JinjaNode,
    environment: Environment,
  ): RuntimeValue | undefined {
    const [called, ...others] = filterArgumentsOf(node);
    if (name === "map" && called?.type !== "StringLiteral") return undefined;
    const callee = { type: "Identifier", value: called?.value };
    const list = toRuntime([]);
    if (name === "map") {
      if (!filterNames.includes(String(called?.value)))
        throw new Error(`no filter ${called?.value}`);
      const filter = { type: "CallExpression", callee, args: others };
      const type = "FilterExpression";
      list.value = elements.map((each) =>
        this.evaluate(
          { type, operand: evaluated(each), filter: others.length === 0 ? callee : filter },
          environment,
        ),
      );
      return list;
    }
    const isByField = name.endsWith("attr");
    const field = isByField ? String(this.evaluate(called, environment).value) : undefined;
    const [test, ...given] = isByField ? others : filterArgumentsOf(node);
    const isWanted = (each: RuntimeValue) => {
      const operand = evaluated(field === undefined ? each : fieldIn(each, field));
      const tested = test ? testOf(operand, String(test.value), given) : operand;
      const both = { type: "UnaryExpression", operator: { value: "not" }, argument: tested };
      return this.evaluate(both, environment).value === name.startsWith("reject");
    };
    list.value = elements.filter(isWanted);
    return list;
  }

  #filterArguments(node: JinjaNode, environment: Environment): FilterArguments {
    const positional: WrittenJson[] = [];
    const named: Record<string, WrittenJson> = {};
    for (const argument of filterArgumentsOf(node)) {
      const isNamed = argument.type === "KeywordArgumentExpression";
      const inner = isNamed ? (argument.value as JinjaNode) : argument;
      const value = fromRuntime(this.evaluate(inner, environment));
      if (isNamed) named[String(argument.key?.value)] = value;
      else positional.push(value);
    }
    return { positional, named };
  }
}

/** Units that are read to find a letter by its number. */
function reachOf(text: string, at: number): number {
  return Math.min(Math.abs(at), text.length);
}

/** `"a" + [1]` has no meaning in Jinja, and the library's is of no use. */
function assertAddable(
  left: RuntimeValue,
  right: RuntimeValue,
  place: TemplateSource,
  path: string | undefined,
): void {
  const types = [left.type, right.type];
  const isOfText = types.includes("StringValue");
  if (!isOfText || !types.some((type) => type === "ObjectValue" || type === "ArrayValue")) return;
  const words = types.map((type) => kindNames[type] ?? type).join(" and ");
  throw wrongType(place, `+ does not add ${words}; ~ joins them as they are printed`, path);
}

/** The filter `tojson`, whose first argument is `indent`, as the library knows it only by name. */
function withIndent({ filter }: JinjaNode): JinjaNode | undefined {
  const [first, ...others] = filter?.args ?? [];
  if (!filter || !first || first.type === "KeywordArgumentExpression") return filter;
  const key = { type: "Identifier", value: "indent" };
  const indent = { type: "KeywordArgumentExpression", key, value: first };
  return { ...filter, args: [indent, ...others] };
}

/** Filters of the library that may make a text much longer. */
const longFilters: ReadonlySet<string> = new Set(["indent", "tojson", "string", "replace"]);

function assertReplaced(text: unknown, [old, other]: readonly unknown[]): void {
  if (typeof text !== "string" || typeof old !== "string" || typeof other !== "string") return;
  if (other.length <= old.length) return;
  assertChars(text.length + countOf(text, old) * (other.length - old.length));
}

/** Methods that do what filters of their name do: the library's know ASCII letters only. */
const filterMethods = new Set(["capitalize", "title"]);
const noArguments: FilterArguments = Object.freeze({ positional: [], named: {} });

/** A method that may make a text or list much longer, with a check of the size before it runs. */
function bounded(object: RuntimeValue, name: string, method: RuntimeValue): RuntimeValue {
  const { value: text } = object;
  if (typeof text !== "string" || typeof method.value !== "function") return method;
  const call = method.value as (given: readonly RuntimeValue[], scope: Environment) => RuntimeValue;
  const value = (given: readonly RuntimeValue[], scope: Environment) => {
    if (filterMethods.has(name)) return toRuntime(ownFilters[name]!(text, noArguments));
    const [first, second] = given.map((each) => each.value);
    if (name === "replace") assertReplaced(text, [first, second]);
    if (name === "split") assertElements(splitCount(text, first));
    return call(given, scope);
  };
  return Object.assign(Object.create(method) as RuntimeValue, { value });
}

function splitCount(text: string, separator: unknown): number {
  if (typeof separator !== "string") return matchCount(text, /\S+/g);
  return separator === "" ? 0 : countOf(text, separator) + 1;
}

function evaluated(value: RuntimeValue): JinjaNode {
  return { type: "Evaluated", value };
}

function isDeclared(name: string, environment: Environment): boolean {
  for (let at: Environment | undefined = environment; at !== undefined; at = at.parent) {
    if (at.variables.has(name)) return true;
  }
  return false;
}

/** True for a plain error; false for ours, and for the library's `break` and `continue`. */
function isPlainError(thrown: unknown): boolean {
  return (
    thrown instanceof Error &&
    [Error, SyntaxError, TypeError].includes(thrown.constructor as ErrorConstructor)
  );
}

function noFieldText(type: string, key: string): string {
  return `${kindNames[type] ?? type} has no ${key}`;
}

/** The library's message with plain words for its class names. */
function inWords(thrown: unknown): string {
  return messageOf(thrown).replace(/\b[A-Z]\w+Value\b/g, (name) => kindNames[name] ?? name);
}
