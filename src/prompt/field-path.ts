import type { WrittenJson, WrittenRow } from "../foundation/exact-json.ts";
import { missing, wrongType } from "./field-errors.ts";
import type { JinjaNode } from "./jinja-library.ts";
import { constantNames } from "./jinja-scope.ts";
import { pathOf, type TemplateSource } from "./jinja-syntax.ts";
import { isObject, kindOf } from "./value-text.ts";

/**
 * Reads one field of a row; `extra` goes before the row's fields.
 *
 * @throws SluiceError `VARIABLE_MISSING` or `FIELD_TYPE`, as the interpreter does.
 */
export type FieldReader = (row: WrittenRow, extra: WrittenRow | undefined) => WrittenJson;

interface Step {
  key: string | number;
  /** The path up to and with this step, for messages. */
  path: string;
}

/**
 * The reader of a plain chain of fields, such as `title`, `order.items[0]`; undefined when `node`
 * is anything else.
 */
export function fieldReader(node: JinjaNode, place: TemplateSource): FieldReader | undefined {
  const steps: Step[] = [];
  let root = node;
  while (root.type === "MemberExpression") {
    const key = staticKey(root);
    if (key === undefined || root.object === undefined) return undefined;
    steps.unshift({ key, path: pathOf(root)! });
    root = root.object;
  }
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
  // Nothing that objects inherit is text, so text needs no further look.
  if (typeof value === "string" || Object.hasOwn(row, name)) return value as WrittenJson;
  if (name === "row") return row;
  throw missing(place, name, [...Object.keys(row), ...Object.keys(extra ?? {})]);
}

function fieldOf(value: WrittenJson, { key, path }: Step, place: TemplateSource): WrittenJson {
  if (isObject(value)) {
    if (typeof key === "number") throw wrongType(place, `an object has no place ${key}`, path);
    if (Object.hasOwn(value, key)) return value[key]!;
    throw missing(place, path, Object.keys(value));
  }
  if (typeof value === "string" || Array.isArray(value)) {
    if (key === "length") return value.length;
    const element = typeof key === "number" ? value.at(key) : undefined;
    if (element !== undefined) return element;
    if (typeof key === "number") throw missing(place, path);
  }
  throw wrongType(place, `${kindOf(value)} has no ${key}`, path);
}
