import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { jobInvalid } from "../answer-form.ts";
import { kindOf } from "../value-text.ts";
import { copyShape, withNullInside } from "./copy-shape.ts";
import { assertWritable } from "./endings.ts";
import { count, countOrNone, finite, text, texts } from "./keyword-values.ts";
import { formOfSchema, keywordsByType } from "./keywords.ts";
import { hasNumbers } from "./number-grammar.ts";
import type {
  ArrayShape,
  CopyShape,
  NumberShape,
  ObjectShape,
  Shape,
  Shapes,
  StringShape,
} from "./shape.ts";

/**
 * Reads a JSON Schema (draft 2020-12, and what means the same in older drafts).
 *
 * The shapes are narrower than the schema, never wider: an object has only its `properties`, and a
 * `prefixItems` array without `minItems` has all of these items.
 *
 * @param key in the job file, for messages: `prompts.recipe.schema`.
 * @throws SluiceError `JOB_INVALID`, which names the key, for anything not supported and beyond
 *   `limits.maxSchemaParts` and `maxSchemaDepth`; `TEMPLATE_INVALID` for a `copyFrom`.
 */
export function readSchema(schema: JsonObject, key: string): Shapes {
  const reader = new SchemaReader(schema, key);
  const root = reader.read(schema, key);
  const copies = [...reader.copies.values()];
  const shapes = { root, rules: reader.rules, copies, patterns: reader.patterns };
  assertWritable(shapes, key);
  return shapes;
}

class SchemaReader {
  readonly rules = new Map<string, Shape>();
  readonly copies = new Map<string, CopyShape>();
  readonly patterns: string[] = [];
  readonly #schema: JsonObject;
  readonly #key: string;
  #parts = 0;
  #depth = 0;

  constructor(schema: JsonObject, key: string) {
    this.#schema = schema;
    this.#key = key;
  }

  read(given: Json | undefined, key: string): Shape {
    if (!isJsonObject(given)) {
      throw jobInvalid(key, `it must be a schema (an object), not ${kindOf(given ?? null)}`);
    }
    if (++this.#parts > limits.maxSchemaParts) {
      throw jobInvalid(this.#key, `it has more than ${limits.maxSchemaParts} schemas inside`);
    }
    if (++this.#depth > limits.maxSchemaDepth) {
      throw jobInvalid(this.#key, `it goes more than ${limits.maxSchemaDepth} schemas deep`);
    }
    const schema = withNullInside(given);
    const shape = this.#shapeOf(schema, key);
    this.#depth--;
    const notes: JsonObject = {};
    for (const name of ["title", "description"]) {
      if (typeof schema[name] === "string") notes[name] = schema[name];
    }
    return Object.keys(notes).length === 0 ? shape : { ...shape, notes };
  }

  #shapeOf(schema: JsonObject, key: string): Shape {
    const types = typesOf(schema, key);
    switch (formOfSchema(schema, types, key)) {
      case "$ref":
        return { kind: "reference", name: this.#refer(schema.$ref!, `${key}.$ref`) };
      case "anyOf":
        return this.#alternatives(schema.anyOf!, `${key}.anyOf`, false);
      case "oneOf":
        return this.#alternatives(schema.oneOf!, `${key}.oneOf`, true);
      case "enum":
        return constants(schema.enum!, types, `${key}.enum`);
      case "const":
        return constants([schema.const!], types, `${key}.const`);
      case "type":
        return this.#typed(schema, types, key);
    }
  }

  #typed(schema: JsonObject, types: readonly string[], key: string): Shape {
    if (types.length === 0) {
      throw jobInvalid(key, "it does not say what is valid; give it a type");
    }
    if (schema.copyFrom !== undefined) return this.#copy(schema, types, key);
    const stray = ["maxWords", "orElse"].find((name) => schema[name] !== undefined);
    if (stray) throw jobInvalid(`${key}.${stray}`, `${stray} needs copyFrom`);
    const shapes = types.map((type) => this.#ofType(schema, type, key));
    return shapes.length === 1 ? shapes[0]! : { kind: "alternatives", shapes, isExclusive: false };
  }

  #copy(schema: JsonObject, types: readonly string[], key: string): Shape {
    const shape = copyShape(schema, types, key);
    this.copies.set(key, shape);
    this.#notePattern(shape.pattern, key);
    return shape;
  }

  #ofType(schema: JsonObject, type: string, key: string): Shape {
    switch (type) {
      case "string": {
        const shape = stringShape(schema, key);
        this.#notePattern(shape.pattern?.text, key);
        return shape;
      }
      case "number":
      case "integer":
        return numberShape(schema, type === "integer", key);
      case "array":
        return this.#array(schema, key);
      case "object":
        return this.#object(schema, key);
      default:
        return { kind: type as "boolean" | "null" };
    }
  }

  #notePattern(pattern: string | undefined, key: string): void {
    if (pattern !== undefined) this.patterns.push(`${key}: ${pattern}`);
  }

  #alternatives(list: Json, key: string, isExclusive: boolean): Shape {
    if (!Array.isArray(list) || list.length === 0) {
      throw jobInvalid(key, "it must be a list of schemas");
    }
    const shapes = list.map((schema, at) => this.read(schema, `${key}.${at}`));
    return { kind: "alternatives", shapes, isExclusive };
  }

  #array(schema: JsonObject, key: string): ArrayShape {
    const { prefixItems = [], items, uniqueItems = false } = schema;
    if (!Array.isArray(prefixItems)) throw jobInvalid(`${key}.prefixItems`, "it must be a list");
    if (typeof uniqueItems !== "boolean") {
      throw jobInvalid(`${key}.uniqueItems`, "it must be true or false");
    }
    const first = prefixItems.map((item, at) => this.read(item, `${key}.prefixItems.${at}`));
    if (items === undefined && first.length === 0) {
      throw jobInvalid(`${key}.items`, "it is missing: say what the elements are");
    }
    const hasRest = items !== undefined && items !== false;
    const rest = hasRest ? this.read(items, `${key}.items`) : undefined;
    const minItems = count(schema, "minItems", key, first.length);
    const most = countOrNone(schema, "maxItems", key);
    const maxItems = rest === undefined ? Math.min(most ?? first.length, first.length) : most;
    if (maxItems !== undefined && minItems > maxItems) {
      throw jobInvalid(`${key}.minItems`, `${minItems} is more than may be there, ${maxItems}`);
    }
    return { kind: "array", first, rest, minItems, maxItems, uniqueItems };
  }

  #object(schema: JsonObject, key: string): ObjectShape {
    const { properties = {}, additionalProperties = false } = schema;
    if (!isJsonObject(properties)) {
      throw jobInvalid(`${key}.properties`, "it must be an object of schemas");
    }
    if (additionalProperties !== false) {
      const problem = "nothing but the properties is written: leave it out, or set it to false";
      throw jobInvalid(`${key}.additionalProperties`, problem);
    }
    const required = new Set(texts(schema, "required", key));
    const stray = [...required].find((name) => !Object.hasOwn(properties, name));
    if (stray !== undefined) {
      throw jobInvalid(`${key}.required`, `${stray} is none of the properties`);
    }
    return {
      kind: "object",
      properties: Object.entries(properties).map(([name, inner]) => ({
        name,
        shape: this.read(inner, `${key}.properties.${name}`),
        isRequired: required.has(name),
      })),
    };
  }

  /** The rule's name for a `$ref`; its schema is read once. */
  #refer(ref: Json, key: string): string {
    if (typeof ref !== "string" || !/^#(\/|$)/.test(ref)) {
      throw jobInvalid(key, "only references within the schema are followed, as #/$defs/NAME");
    }
    if (this.rules.has(ref)) return ref;
    const parts = decoded(ref.slice(1), key).split("/").slice(1);
    const path = parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    let target: Json | undefined = this.#schema;
    for (const part of path) {
      const holder = target as JsonObject | null | undefined;
      target = Object.hasOwn(Object(holder), part) ? holder![part] : undefined;
    }
    if (target === undefined) throw jobInvalid(key, `there is no ${ref}`);
    // Registered before it is read, because it may refer to itself.
    this.rules.set(ref, { kind: "null" });
    this.rules.set(ref, this.read(target, [this.#key, ...path].join(".")));
    return ref;
  }
}

function decoded(fragment: string, key: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    throw jobInvalid(key, `${fragment} has a % that begins no character, as %20 does`);
  }
}

function typesOf({ type }: JsonObject, key: string): string[] {
  if (type === undefined) return [];
  const types = Array.isArray(type) ? type : [type];
  for (const each of types) {
    if (typeof each === "string" && Object.hasOwn(keywordsByType, each)) continue;
    const all = Object.keys(keywordsByType).join(", ");
    throw jobInvalid(`${key}.type`, `${JSON.stringify(each)} is none of ${all}`);
  }
  return types as string[];
}

function constants(values: Json, types: readonly string[], key: string): Shape {
  if (!Array.isArray(values)) throw jobInvalid(key, "it must be a list of values");
  const fits = (value: Json) => types.length === 0 || types.some((type) => isOfType(value, type));
  const fitting = values.filter(fits);
  if (fitting.length === 0) throw jobInvalid(key, "it names no value of the type");
  // Canonical texts: equal objects have equal text in whatever order their keys are.
  const known = new Map<string, Json>();
  for (const value of fitting) {
    const text = canonicalJson(value);
    if (!known.has(text)) known.set(text, value);
  }
  return { kind: "constants", values: [...known.values()] };
}

function isOfType(value: Json, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  return type === "object" ? isJsonObject(value) : typeof value === type;
}

function stringShape(schema: JsonObject, key: string): StringShape {
  const pattern = text(schema, "pattern", key);
  const minLength = count(schema, "minLength", key, 0);
  const maxLength = countOrNone(schema, "maxLength", key);
  if (maxLength !== undefined && minLength > maxLength) {
    throw jobInvalid(`${key}.minLength`, `${minLength} is more than maxLength, ${maxLength}`);
  }
  const matching = pattern === undefined ? undefined : compiled(pattern, `${key}.pattern`);
  return { kind: "string", minLength, maxLength, pattern: matching };
}

function compiled(text: string, key: string): StringShape["pattern"] {
  try {
    return { text, compiled: new RegExp(text, "u") };
  } catch (cause) {
    throw jobInvalid(key, (cause as Error).message);
  }
}

function numberShape(schema: JsonObject, isInteger: boolean, key: string): NumberShape {
  const multipleOf = finite(schema, "multipleOf", key);
  if (multipleOf !== undefined && multipleOf <= 0) {
    throw jobInvalid(`${key}.multipleOf`, "it must be above 0");
  }
  const shape: NumberShape = {
    kind: "number",
    isInteger,
    minimum: finite(schema, "minimum", key) ?? -Infinity,
    maximum: finite(schema, "maximum", key) ?? Infinity,
    exclusiveMinimum: finite(schema, "exclusiveMinimum", key) ?? -Infinity,
    exclusiveMaximum: finite(schema, "exclusiveMaximum", key) ?? Infinity,
    multipleOf,
  };
  if (shape.minimum > shape.maximum) throw jobInvalid(`${key}.minimum`, "it is above maximum");
  if (!hasNumbers(shape)) throw jobInvalid(key, "no number fits");
  return shape;
}
