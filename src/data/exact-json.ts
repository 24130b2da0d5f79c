/**
 * A JSON value whose whole numbers beyond ±(2^53 − 1) are `bigint`, so that no digit is lost, and
 * numbers that no double reaches, as `1e400`, their text.
 */
export type ExactJson =
  | null
  | boolean
  | number
  | bigint
  | string
  | ExactJson[]
  | { [key: string]: ExactJson };

/** A row with every digit of its whole numbers. */
export type ExactRow = { [key: string]: ExactJson };

/**
 * Only so many digits can be beyond ±(2^53 − 1); behind a point they are no whole number. Only such
 * an exponent can be beyond all doubles.
 */
const longNumber = /(?<![.\d])\d{16}|\d[eE]\+?\d{3}/;
const wholeNumber = /^-?\d+$/;

/**
 * What `JSON.parse` gives, but whole numbers that a double cannot hold as `bigint`. A number
 * written with a point or an exponent stays a double, where it is not beyond all of them.
 *
 * @throws SyntaxError as `JSON.parse` does.
 * @example
 * parseExactly('{"id":9007199254740993,"x":1e20}'); // { id: 9007199254740993n, x: 1e20 }
 */
export function parseExactly(text: string): ExactJson {
  if (!longNumber.test(text)) return JSON.parse(text) as ExactJson;
  return parse(text, (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
    const source = context.source ?? "";
    if (wholeNumber.test(source)) return BigInt(source);
    return Number.isFinite(value) ? value : source;
  }) as ExactJson;
}

/** Node's own, which tells a reviver the text of each number; the types do not know yet. */
const parse = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
) => unknown;

/**
 * The JSON text of a value, every digit of a `bigint` included.
 *
 * @example
 * exactText({ id: 9007199254740993n }); // '{"id":9007199254740993}'
 */
export function exactText(value: ExactJson): string {
  if (typeof value === "bigint") return String(value);
  if (Object.is(value, -0)) return "-0";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(exactText).join(",")}]`;
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${exactText(member)}`,
  );
  return `{${members.join(",")}}`;
}
