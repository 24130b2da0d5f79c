import type { Json, JsonObject } from "../../foundation/json.ts";
import type { Expression } from "../expression.ts";

/** What people wrote about a value, for the model that reads the schema. */
interface Annotated {
  notes?: JsonObject;
}

/** What a JSON value may be: one place of a schema, read and checked. */
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
  /** Must match somewhere; as it is written, and compiled. */
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
  /** Shapes of the first elements. */
  first: readonly Shape[];
  /** Shape of those behind them; undefined = there are none. */
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
  /** `oneOf`: a value that fits two of them is wrong. */
  isExclusive: boolean;
}

/** A text whose words stand in another one, or what is written where nothing is copied. */
export interface CopyShape {
  kind: "copy";
  /** Key path of the field in the job file, which tells it from others. */
  key: string;
  copyFrom: string;
  source: Expression;
  maxWords: number;
  /** Regular expression, flags `iu`, that the whole copied text must match. */
  pattern: string | undefined;
  orElse: string | null;
  /** The schema allows null here. */
  isNullable: boolean;
}

/** A schema, read: its root, and the places that it refers to by name. */
export interface Shapes {
  root: Shape;
  rules: ReadonlyMap<string, Shape>;
  copies: readonly CopyShape[];
  /** Its patterns with the places where they stand, for messages. */
  patterns: readonly string[];
}
