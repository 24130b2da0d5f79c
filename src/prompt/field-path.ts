import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import { missing, wrongType } from "./field-errors.ts";
import type { JinjaNode } from "./jinja-library.ts";
import { constantNames } from "./jinja-scope.ts";
import { pathOf, type TemplateSource } from "./jinja-syntax.ts";
import { letterAt } from "./long-text.ts";
import { isObject, kindOf } from "./value-text.ts";

/**
 * Reads one field of a row. Names in `extra` hide the row's fields.
 *
 * @throws SluiceError `VARIABLE_MISSING` or `FIELD_TYPE`, as the interpreter does.
 */
export type FieldReader = (row: WrittenRow, extra: WrittenRow | undefined) => WrittenJson;

interface Step {
  key: string | number;
  /** The expression up to this field, for messages. */
  node: JinjaNode;
}

/**
 * Makes a reader for a plain chain of fields, such as `title` or `order.items[0]`; undefined if
 * `node` is anything else.
 */
export function fieldReader(node: JinjaNode, place: TemplateSource): FieldReader | undefined {
  const steps: Step[] = [];
  let root = node;
  while (root.type === "MemberExpression") {
    const key = staticKey(root);
    if (key === undefined || root.object === undefined) return undefined;
    steps.push({ key, node: root });
    root = root.object;
  }
  steps.reverse();
  if (root.type !== "Identifier" || constantNames.has(String(root.value))) return undefined;
  const name = String(root.value);
  if (steps.length === 0) return (row, extra) => rootValue(row, extra, name, place);
  return (row, extra) => {
    let value = rootValue(row, extra, name, place);
    for (const step of steps) value = fieldOf(value, step, place);
    return value;
  };
}

function staticKey(node: JinjaNode): string | number | undefined {
  const { property } = node;
  if (property?.type === "IntegerLiteral") return property.value as number;
  if (property?.type === "StringLiteral") return property.value as string;
  return property?.type === "Identifier" && !node.computed ? String(property.value) : undefined;
}

function rootValue(
  row: WrittenRow,
  extra: WrittenRow | undefined,
  name: string,
  place: TemplateSource,
): WrittenJson {
  if (extra !== undefined && Object.hasOwn(extra, name)) return extra[name]!;
  const value = row[name];
  // Objects inherit no texts, so a text must be the row's own field.
  if (typeof value === "string" || Object.hasOwn(row, name)) return value as WrittenJson;
  if (name === "row") return row;
  throw missing(place, name, [...Object.keys(row), ...Object.keys(extra ?? {})]);
}

function fieldOf(value: WrittenJson, { key, node }: Step, place: TemplateSource): WrittenJson {
  if (isObject(value)) {
    if (typeof key === "string" && Object.hasOwn(value, key)) return value[key]!;
    const path = pathOf(node)!;
    if (typeof key === "string") throw missing(place, path, Object.keys(value));
    throw wrongType(place, `an object has no place ${key}`, path);
  }
  if (typeof value === "string" || Array.isArray(value)) {
    if (key === "length") return value.length;
    const element = typeof key === "number" ? elementAt(value, key) : undefined;
    if (element !== undefined) return element;
    if (typeof key === "number") throw missing(place, pathOf(node)!);
  }
  throw wrongType(place, `${kindOf(value)} has no ${key}`, pathOf(node));
}

function elementAt(value: string | WrittenJson[], place: number): WrittenJson | undefined {
  return typeof value === "string" ? letterAt(value, place) : value.at(place);
}
