import { type ExactJson, toWrittenNumber } from "./exact-json.ts";
import type { Json } from "./json.ts";

/** Lists of numbers of one type, such as embeddings and bytes. */
export type TypedArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/** Values that rows of a dataset may hold and JSON does not have. */
export type TypedValue = Date | TypedArray;

/** A value in a row of a dataset, as user code sees it. */
export type TypedJson =
  | Exclude<Json, object>
  | bigint
  | TypedValue
  | TypedJson[]
  | { [key: string]: TypedJson };

const arrayKinds = {
  Buffer,
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
} as const;

/** The member that names the type of such a value, in messages and interim files. */
const mark = "$type";

/** Whether an object is a value that dataset rows may hold and JSON does not have. */
export function isTyped(value: object): value is TypedValue {
  return value instanceof Date || isTypedArray(value);
}

function isTypedArray(value: object): value is TypedArray {
  return ArrayBuffer.isView(value) && kindOf(value) in arrayKinds;
}

/**
 * A value as JSON, from which `fromWire` makes the same value again. A value that is JSON already
 * stays as it is.
 *
 * @example
 * toWire({ at: new Date(0) }); // { at: { $type: "Date", value: 0 } }
 */
export function toWire(value: TypedJson): Json {
  return mapped(value, wireOf) as Json;
}

/** The value from which `toWire` made this JSON. */
export function fromWire(json: Json): TypedJson {
  return mapped(json, typedOf);
}

/**
 * A value as it is written into results: a `Date` as text, bytes (`Uint8Array`) in base64, other
 * typed arrays as lists. A `bigint` stays, for `exactText` to write.
 *
 * @example
 * plainJson({ at: new Date(0), bytes: new Uint8Array([1]) });
 * // { at: "1970-01-01T00:00:00.000Z", bytes: "AQ==" }
 */
export function plainJson(value: TypedJson): ExactJson {
  return mapped(value, plainOf) as ExactJson;
}

/**
 * A value as `plainJson`, for a request: its numbers keep their digits also on the way to another
 * process.
 *
 * @example
 * JSON.stringify(requestJson({ id: 9007199254740993n })); // '{"id":9007199254740993}'
 */
export function requestJson(value: TypedJson): Json {
  return mapped(value, requestOf) as Json;
}

/** Returns what replaces a value; undefined means: keep it and look at its members. */
type Change = (value: object | bigint | number) => TypedJson | undefined;

/** Copies only what changes, for almost all rows hold no such value. */
function mapped(value: TypedJson, change: Change): TypedJson {
  // Others than these, and NaN, are the same number in every process.
  if (typeof value === "bigint" || (typeof value === "number" && !(Math.abs(value) < 2 ** 53))) {
    return change(value) ?? value;
  }
  if (typeof value !== "object" || value === null) return value;
  const instead = change(value);
  if (instead !== undefined) return instead;
  return Array.isArray(value) ? mappedList(value, change) : mappedObject(value, change);
}

function mappedList(list: TypedJson[], change: Change): TypedJson[] {
  let copy: TypedJson[] | undefined;
  for (const [at, inner] of list.entries()) {
    const changed = mapped(inner, change);
    if (changed === inner) continue;
    copy ??= [...list];
    copy[at] = changed;
  }
  return copy ?? list;
}

function mappedObject(value: object, change: Change): { [key: string]: TypedJson } {
  const members = value as { [key: string]: TypedJson };
  const changes = new Map<string, TypedJson>();
  for (const key of Object.keys(members)) {
    const changed = mapped(members[key]!, change);
    if (changed !== members[key]) changes.set(key, changed);
  }
  if (changes.size === 0) return members;
  return Object.fromEntries(
    Object.entries(members).map(([key, inner]) => [key, changes.get(key) ?? inner]),
  );
}

function wireOf(value: object | bigint | number): TypedJson | undefined {
  if (typeof value === "number") return { [mark]: "number", value: String(value) };
  if (typeof value === "bigint") return { [mark]: "bigint", value: String(value) };
  if (value instanceof Date) return { [mark]: "Date", value: value.getTime() };
  if (isTypedArray(value)) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    return { [mark]: kindOf(value), value: bytes.toString("base64") };
  }
  if (!Object.hasOwn(value, mark)) return undefined;
  return { [mark]: "object", value: mappedObject(value, wireOf) };
}

function typedOf(json: object | bigint | number): TypedJson | undefined {
  if (typeof json !== "object" || !Object.hasOwn(json, mark)) return undefined;
  const { [mark]: kind, value } = json as { [mark]: string; value: TypedJson };
  if (kind === "object") return mappedObject(value as object, typedOf);
  if (kind === "number") return Number(value);
  if (kind === "bigint") return BigInt(value as string);
  if (kind === "Date") return new Date(value as number);
  const bytes = Buffer.from(value as string, "base64");
  if (kind === "Buffer") return bytes;
  const Kind = arrayKinds[kind as Exclude<keyof typeof arrayKinds, "Buffer">];
  // A new buffer, because the start of a typed array must be aligned.
  return new Kind(new Uint8Array(bytes).buffer);
}

function plainOf(value: object | bigint | number): TypedJson | undefined {
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== "object" || !isTypedArray(value)) return undefined;
  if (!(value instanceof Uint8Array)) return Array.from<number | bigint>(value);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
}

function requestOf(value: object | bigint | number): TypedJson | undefined {
  if (typeof value !== "object") return toWrittenNumber(value) as unknown as TypedJson;
  const plain = plainOf(value);
  return Array.isArray(plain) ? mappedList(plain, requestOf) : plain;
}

function kindOf(value: object): string {
  return value.constructor.name;
}
