import { SluiceError } from "./errors.ts";
import { toWrittenNumber } from "./exact-json.ts";
import type { Json } from "./json.ts";
import { isTyped, type TypedJson, type TypedValue } from "./typed-json.ts";

/** Makes the error for a value that JSON does not have; `problem` says what it is. */
export type NotJson = (problem: string) => Error;

/**
 * A result of user code as JSON. Typed arrays become lists, an object with `toJSON` becomes what
 * that returns, and a `bigint` keeps all its digits.
 *
 * @throws SluiceError `PREDICTION_FAILED`, which names the value's place: better no result than one
 *   that was changed in silence.
 * @example
 * jsonResult({ vector: new Float32Array([1, 2]) }); // { vector: [1, 2] }
 */
export function jsonResult(result: unknown): Json {
  return new Conversion(predictionFailed, false).converted(result);
}

/**
 * A row of a dataset from user code. A `Date`, a `bigint` and a typed array stay what they are, for
 * the next step is code too.
 *
 * @param notJson makes the error for a value that JSON does not have.
 * @param specials what `specialsIn` found in the code's input: these values may come out again.
 */
export function typedResult(
  result: unknown,
  notJson: NotJson,
  specials?: ReadonlySet<number>,
): TypedJson {
  return new Conversion(notJson, true, specials).converted(result);
}

function predictionFailed(problem: string): SluiceError {
  return new SluiceError("PREDICTION_FAILED", `the result${problem}`);
}

class Conversion {
  /** Where the present value stands: names of members, and places in lists. */
  readonly #path: (string | number)[] = [];
  /** The objects and lists around the present value, to detect cycles. */
  readonly #holders = new Set<object>();
  readonly #fail: NotJson;
  readonly #keepsTypes: boolean;
  readonly #specials: ReadonlySet<number> | undefined;

  constructor(notJson: NotJson, keepsTypes: boolean, specials?: ReadonlySet<number>) {
    this.#specials = specials;
    this.#fail = notJson;
    this.#keepsTypes = keepsTypes;
  }

  converted(value: unknown): Json {
    switch (typeof value) {
      case "string":
      case "boolean":
        return value;
      case "number":
        if (Number.isFinite(value) || this.#specials?.has(value)) return this.#number(value);
        throw this.#notJson(String(value));
      case "object":
        return value === null ? null : this.#held(value);
      case "bigint":
        return this.#number(value);
      default:
        throw this.#notJson(value === undefined ? "undefined" : `a ${typeof value}`);
    }
  }

  #number(value: number | bigint): Json {
    return (this.#keepsTypes ? value : toWrittenNumber(value)) as Json;
  }

  #held(value: object): Json {
    if (this.#holders.has(value)) throw this.#notJson("an object that holds itself");
    this.#holders.add(value);
    const json = this.#convertedObject(value);
    this.#holders.delete(value);
    return json;
  }

  #convertedObject(value: object): Json {
    if (value instanceof Date && Number.isNaN(value.getTime())) {
      // JSON would turn it into null.
      throw this.#notJson("an invalid Date");
    }
    if (this.#keepsTypes && isTyped(value)) return this.#typed(value) as unknown as Json;
    if (Array.isArray(value) || isTypedArray(value)) {
      return Array.from(value, (inner, at) => this.#inside(at, inner));
    }
    if (value instanceof Number) return value as unknown as Json;
    if ("toJSON" in value && typeof value.toJSON === "function") {
      return this.converted(value.toJSON());
    }
    const kind = Object.prototype.toString.call(value).slice("[object ".length, -1);
    // JSON would turn a Map, a Promise and their like into an empty object.
    if (kind !== "Object") throw this.#notJson(/^[AEIOU]/.test(kind) ? `an ${kind}` : `a ${kind}`);
    // As in JSON, a member that is undefined is absent.
    const members = Object.entries(value).filter(([, inner]) => inner !== undefined);
    return Object.fromEntries(members.map(([key, inner]) => [key, this.#inside(key, inner)]));
  }

  /** Copies a typed value: if the code changes its own later, the row does not change. */
  #typed(value: TypedValue): TypedValue {
    if (value instanceof Date) return new Date(value);
    if (typeof value[0] === "number") {
      for (let at = 0; at < value.length; at++) this.#inside(at, value[at]);
    }
    return Buffer.isBuffer(value) ? Buffer.from(value) : value.slice();
  }

  #inside(step: string | number, value: unknown): Json {
    this.#path.push(step);
    const json = this.converted(value);
    this.#path.pop();
    return json;
  }

  #notJson(what: string): Error {
    const steps = this.#path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`));
    return this.#fail(`${steps.join("")} is ${what}, which JSON does not have`);
  }
}

/** The NaN and infinities in a value, at any depth. */
export function specialsIn(value: unknown, found = new Set<number>()): Set<number> {
  if (typeof value === "number" || value instanceof Number) {
    if (!Number.isFinite(+value)) found.add(+value);
  } else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value)) {
    for (const inner of Object.values(value)) specialsIn(inner, found);
  }
  return found;
}

function isTypedArray(value: object): value is ArrayBufferView & ArrayLike<unknown> {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}
