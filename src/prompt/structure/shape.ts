import type { Json, JsonObject } from "../../foundation/json.ts";
import type { Expression } from "../expression.ts";

/** Descriptions in the schema, for the model that reads it. */
interface Annotated {
  notes?: JsonObject;
}

/** The values that one place of a schema allows, parsed and checked. */
export type Shape = Annotated &
  (
    | { kind: "constants"; values: readonly Json[] }
    | { kind: "boolean" }
    | { kind: "null" }
    | StringShape
    | NumberShape
    | ArrayShape
    | ObjectShape
    | AlternativesShape
    | CopyShape
    | { kind: "reference"; name: string }
  );

export interface StringShape {
  kind: "string";
  minLength: number;
  maxLength: number | undefined;
  /** A pattern that matches somewhere in the text: its source, and compiled. */
  pattern: { text: string; compiled: RegExp } | undefined;
}

export interface NumberShape {
  kind: "number";
  isInteger: boolean;
  minimum: number;
  maximum: number;
  exclusiveMinimum: number;
  exclusiveMaximum: number;
  multipleOf: number | undefined;
}

export interface ArrayShape {
  kind: "array";
  first: readonly Shape[];
  /** Shape of the elements after them; undefined = no further elements. */
  rest: Shape | undefined;
  minItems: number;
  maxItems: number | undefined;
  uniqueItems: boolean;
}

export interface ObjectShape {
  kind: "object";
  properties: readonly Property[];
}

export interface Property {
  name: string;
  shape: Shape;
  isRequired: boolean;
}

export interface AlternativesShape {
  kind: "alternatives";
  shapes: readonly Shape[];
  /** True for `oneOf`: a value that matches two of the shapes is invalid. */
  isExclusive: boolean;
}

/** Words that a slot copies at most: the default, and the most that a job may set. */
export const slotWords = 8;
export const maxSlotWords = 64;

/** A text copied from another one, or a fixed text if nothing is copied. */
export interface CopyShape {
  kind: "copy";
  /** Key path of the field in the job file; it is unique. */
  key: string;
  copyFrom: string;
  source: Expression;
  maxWords: number;
  /** Regular expression, flags `iu`, that the whole copied text must match. */
  pattern: string | undefined;
  orElse: string | null;
  /** True if null is allowed too. */
  isNullable: boolean;
}

/** A parsed schema: its root shape, and the shapes that it refers to by name. */
export interface Shapes {
  root: Shape;
  rules: ReadonlyMap<string, Shape>;
  copies: readonly CopyShape[];
  /** Its patterns, each with its place in the schema, for messages. */
  patterns: readonly string[];
}
