import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import type { ArrayShape, CopyShape, NumberShape, Shape, Shapes, StringShape } from "./shape.ts";

/**
 * The schema as it is sent to a server: only the parts that were read, objects closed, references
 * in `$defs`.
 *
 * @param values the texts that a copying field may hold; undefined = too many to list.
 */
export function sentSchema(
  shapes: Shapes,
  values: (copy: CopyShape) => readonly (string | null)[] | undefined,
): JsonObject {
  const names = new Map(
    [...shapes.rules.keys()].map((ref, at) => [ref, nameOf(ref, at + 1)] as const),
  );
  const writer = new SchemaWriter(names, values);
  const root = writer.write(shapes.root);
  if (names.size === 0) return root;
  const definitions = [...shapes.rules].map(
    ([ref, shape]) => [names.get(ref)!, writer.write(shape)] as const,
  );
  return { ...root, $defs: Object.fromEntries(definitions) };
}

/** With a number, because the last parts of two references may be equal. */
function nameOf(ref: string, number: number): string {
  const last = ref.split("/").at(-1)!.replace(/\W+/g, "");
  return `${last || "root"}_${number}`;
}

class SchemaWriter {
  readonly #names: ReadonlyMap<string, string>;
  readonly #values: (copy: CopyShape) => readonly (string | null)[] | undefined;

  constructor(
    names: ReadonlyMap<string, string>,
    values: (copy: CopyShape) => readonly (string | null)[] | undefined,
  ) {
    this.#names = names;
    this.#values = values;
  }

  write(shape: Shape): JsonObject {
    return { ...this.#bare(shape), ...shape.notes };
  }

  #bare(shape: Shape): JsonObject {
    switch (shape.kind) {
      case "constants":
        return { type: typesOf(shape.values), enum: [...shape.values] };
      case "boolean":
      case "null":
        return { type: shape.kind };
      case "string":
        return stringSchema(shape);
      case "number":
        return numberSchema(shape);
      case "array":
        return this.#array(shape);
      case "object": {
        const { properties } = shape;
        return {
          type: "object",
          properties: Object.fromEntries(
            properties.map(({ name, shape: inner }) => [name, this.write(inner)]),
          ),
          required: properties.filter((it) => it.isRequired).map(({ name }) => name),
          additionalProperties: false,
        };
      }
      case "alternatives":
        // Fewer servers accept `oneOf`. The answer's check ensures that only one shape matches.
        return { anyOf: shape.shapes.map((inner) => this.write(inner)) };
      case "copy":
        return this.#copy(shape);
      case "reference":
        return { $ref: `#/$defs/${this.#names.get(shape.name)}` };
    }
  }

  #array({ first, rest, minItems, maxItems, uniqueItems }: ArrayShape): JsonObject {
    return {
      type: "array",
      ...(first.length > 0 ? { prefixItems: first.map((item) => this.write(item)) } : {}),
      items: rest === undefined ? false : this.write(rest),
      ...(minItems > 0 ? { minItems } : {}),
      ...(maxItems === undefined ? {} : { maxItems }),
      ...(uniqueItems ? { uniqueItems } : {}),
    };
  }

  #copy(shape: CopyShape): JsonObject {
    const values = this.#values(shape);
    const type = shape.isNullable ? ["string", "null"] : "string";
    return values === undefined ? { type } : { type, enum: [...values] };
  }
}

function typesOf(values: readonly Json[]): Json {
  const types = new Set(
    values.map((value) => {
      if (value === null) return "null";
      if (Array.isArray(value)) return "array";
      return isJsonObject(value) ? "object" : typeof value;
    }),
  );
  return types.size === 1 ? [...types][0]! : [...types];
}

function stringSchema({ minLength, maxLength, pattern }: StringShape): JsonObject {
  return {
    type: "string",
    ...(minLength > 0 ? { minLength } : {}),
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(pattern === undefined ? {} : { pattern: pattern.text }),
  };
}

function numberSchema({ kind: _, isInteger, ...bounds }: NumberShape): JsonObject {
  const given = Object.entries(bounds).filter(([, value]) => Number.isFinite(value));
  return { type: isInteger ? "integer" : "number", ...(Object.fromEntries(given) as JsonObject) };
}
