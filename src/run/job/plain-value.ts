import { SluiceError } from "../../foundation/errors.ts";
import type { Json } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import { isZodSchema, jsonSchemaOf } from "../../prompt/structure/zod-schema.ts";

/**
 * A copy of a job's value that JSON can hold. `undefined` is left out of objects, and a schema of
 * zod becomes its JSON Schema.
 *
 * @param file the value's file, for messages.
 * @throws SluiceError `JOB_INVALID`, with the key, for values of other kinds, getters that throw,
 *   lists and objects that contain themselves, and anything beyond `limits.maxJobDepth` or
 *   `limits.maxJobValues`.
 */
export function plainValue(value: unknown, file?: string): Json {
  return new PlainCopy(file).of(value, []) ?? null;
}

/** Keywords of JSON Schema. */
const bounds: ReadonlySet<string> = new Set([
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
]);

class PlainCopy {
  readonly #file: string | undefined;
  #values = 0;

  constructor(file: string | undefined) {
    this.#file = file;
  }

  of(value: unknown, path: readonly string[]): Json | undefined {
    if (++this.#values > limits.maxJobValues) {
      throw this.#invalid(`it holds over ${limits.maxJobValues} values`, path);
    }
    if (path.length > limits.maxJobDepth) {
      const detail = `it is nested over ${limits.maxJobDepth} deep, or holds itself`;
      throw this.#invalid(detail, path.slice(0, 4));
    }
    if (typeof value === "string" && value.includes("\0")) {
      throw this.#invalid("it holds a NUL character", path);
    }
    if (value === null || ["string", "number", "boolean", "undefined"].includes(typeof value)) {
      return value as Json | undefined;
    }
    if (typeof value === "bigint") return this.#wholeNumber(value, path);
    if (typeof value !== "object") throw this.#invalid(`a ${typeof value} is not JSON`, path);
    try {
      return this.#compound(value, path);
    } catch (cause) {
      if (cause instanceof SluiceError) throw cause;
      throw this.#invalid(`it cannot be read: ${String((cause as Error)?.message ?? cause)}`, path);
    }
  }

  /** @throws also errors of the value's own code. */
  #compound(value: object, path: readonly string[]): Json | undefined {
    if (isZodSchema(value)) return jsonSchemaOf(value, path.join("."));
    if (Array.isArray(value)) {
      return Array.from(value, (inner, at) => this.of(inner, [...path, `${at}`]) ?? null);
    }
    // Dates and similar objects.
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === "function") return this.of(toJSON.call(value), path);
    const entries: [string, Json][] = [];
    for (const key of Object.keys(value)) {
      const inner = [...path, key];
      if (key === "__proto__") throw this.#invalid("it cannot be a key", inner);
      const copy = this.of((value as Record<string, unknown>)[key], inner);
      if (copy !== undefined) entries.push([key, copy]);
    }
    return Object.fromEntries(entries);
  }

  #wholeNumber(value: bigint, path: readonly string[]): number {
    // A bound such as 2^63 - 1 excludes nothing that a number holds.
    if (Number.isSafeInteger(Number(value)) || bounds.has(path.at(-1)!)) return Number(value);
    throw this.#invalid(`${value} is beyond 2^53`, path);
  }

  #invalid(detail: string, path: readonly string[]): SluiceError {
    return new SluiceError("JOB_INVALID", detail, {
      ...(this.#file !== undefined && { file: this.#file }),
      ...(path.length > 0 && { field: path.join(".") }),
    });
  }
}
