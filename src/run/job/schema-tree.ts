import { readFileSync } from "node:fs";
import { packageFile } from "../../entry.ts";
import { isJsonObject, type Json } from "../../foundation/json.ts";
import type { SettingKind } from "../../foundation/setting.ts";

/** A place in the job's JSON Schema, as far as we read it. */
export interface SchemaNode {
  type?: string | string[];
  description?: string;
  title?: string;
  required?: string[];
  kind?: SettingKind;
  default?: Json;
  const?: Json;
  enum?: Json[];
  properties?: Record<string, SchemaNode>;
  additionalProperties?: SchemaNode | boolean;
  items?: SchemaNode;
  anyOf?: SchemaNode[];
  oneOf?: SchemaNode[];
  /** Other names of this key; or the key that this is another name of. */
  otherNames?: string[];
  otherNameOf?: string;
}

let tree: SchemaNode | undefined;

/**
 * The job's schema as a tree of plain objects: the JSON Schema that comes with the package. Making
 * it from the zod schema would cost each start 30 ms; a test compares the two.
 */
export function schemaTree(): SchemaNode {
  tree ??= JSON.parse(readFileSync(packageFile("schema/job.json"), "utf8")) as SchemaNode;
  return tree;
}

/** The forms of a place: the members of a union, or the node itself. */
export function formsOf(node: SchemaNode): readonly SchemaNode[] {
  const members = node.anyOf ?? node.oneOf;
  return members === undefined ? [node] : members.flatMap(formsOf);
}

/** The nodes to which `key` (a name, or an index of a list) leads from this node. */
export function stepInto(node: SchemaNode, key: string): readonly SchemaNode[] {
  return formsOf(node).flatMap((form) => {
    const named = form.properties?.[key];
    if (named) return [named];
    if (form.items) return /^\d+$/.test(key) ? [form.items] : stepInto(form.items, key);
    return typeof form.additionalProperties === "object" ? [form.additionalProperties] : [];
  });
}

/** The nodes at a key path; none if the schema has no such key. */
export function nodesAt(path: readonly string[]): readonly SchemaNode[] {
  let nodes: readonly SchemaNode[] = [schemaTree()];
  for (const key of path) nodes = nodes.flatMap((node) => stepInto(node, key));
  return nodes;
}

/** The known names directly below a key path. */
export function namesBelow(path: readonly string[]): readonly string[] {
  const names = nodesAt(path).flatMap((node) =>
    formsOf(node).flatMap((form) => Object.keys({ ...form.properties, ...form.items?.properties })),
  );
  return [...new Set(names)];
}

/** True if any string is a valid form of the place. */
export function takesString(nodes: readonly SchemaNode[]): boolean {
  return nodes.flatMap(formsOf).some((form) => {
    const isOfFewWords = form.enum !== undefined || form.const !== undefined;
    return !isOfFewWords && typesOf(form).includes("string");
  });
}

/** The constant words among the forms of the place, such as `auto` beside a number. */
export function wordsAt(nodes: readonly SchemaNode[]): readonly Json[] {
  return nodes.flatMap(formsOf).flatMap((form) => form.enum ?? form.const ?? []);
}

/** True if only strings are valid forms of the place. */
export function takesOnlyString(nodes: readonly SchemaNode[]): boolean {
  const forms = nodes.flatMap(formsOf);
  return forms.length > 0 && forms.every((form) => typesOf(form).every((t) => t === "string"));
}

export function typesOf(form: SchemaNode): readonly string[] {
  if (form.type !== undefined) return [form.type].flat();
  const literals = form.enum ?? (form.const === undefined ? [] : [form.const]);
  return [...new Set(literals.map((value) => typeof value))];
}

/**
 * The form of a job's value among those of the schema: by the engine if it distinguishes them, else
 * by the value's type.
 */
export function formOf(node: SchemaNode, value: unknown): SchemaNode | undefined {
  const forms = formsOf(node);
  if (Array.isArray(value)) return forms.find((form) => form.items !== undefined);
  if (!isJsonObject(value)) return forms.find((form) => !form.properties && !form.items);
  const objects = forms.filter((form) => form.properties ?? form.additionalProperties);
  const engine = (form: SchemaNode) => form.properties?.engine?.const;
  return objects.find((form) => engine(form) === value.engine) ?? objects[0];
}
