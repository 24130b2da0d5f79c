import { WrittenNumber } from "../foundation/exact-json.ts";
import { limits } from "../foundation/limits.ts";
import { type RuntimeValue, toRuntime } from "./jinja-library.ts";
import { decimal } from "./value-text.ts";

type Exact = number | bigint;

/** A number to calculate with: a `bigint` if it is whole and long. Undefined for other values. */
export function exactNumber({ type, value }: RuntimeValue): Exact | undefined {
  if (type !== "IntegerValue" && type !== "FloatValue") return undefined;
  return value instanceof WrittenNumber ? value.exact : (value as number);
}

/**
 * The result of an operator that the library computes otherwise than Jinja: whether values are
 * equal, the remainder of numbers of different signs, and whole numbers, which keep all digits,
 * however long. Otherwise undefined, and the library computes.
 */
export function calculated(
  operator: string,
  left: RuntimeValue,
  right: RuntimeValue,
): RuntimeValue | undefined {
  if (operator === "==" || operator === "!=") {
    return toRuntime(areEqual(left, right) === (operator === "=="));
  }
  if (operator === "in" || operator === "not in") return membership(operator, left, right);
  const [a, b] = [exactNumber(left), exactNumber(right)];
  if (a === undefined || b === undefined) return undefined;
  const compare = comparisons[operator];
  if (compare !== undefined) return toRuntime(compare(a, b));
  if (["/", "//", "%"].includes(operator) && Number(b) === 0) throw new Error("division by zero");
  const isWhole = left.type === "IntegerValue" && right.type === "IntegerValue";
  if (isWhole && operator === "**" && b >= 0) return power(a, b);
  const isTurned = operator === "%" && Number(b) !== 0 && a < 0 !== b < 0;
  if (isTurned && !isWhole) return toRuntime(decimal(remainder(Number(a), Number(b))));
  const compute = isWhole ? wholeOperations[operator] : undefined;
  if (compute === undefined || !(isTurned || isLong(compute, a, b))) return undefined;
  const [first, second] = [BigInt(a), BigInt(b)];
  if (operator === "*" && digitsOf(first) + digitsOf(second) > limits.maxTemplateDigits) {
    throw new Error(`a number gets more than ${limits.maxTemplateDigits} digits`);
  }
  return toRuntime(compute(first, second));
}

function power(base: Exact, exponent: Exact): RuntimeValue | undefined {
  if (Number.isSafeInteger(Number(base) ** Number(exponent))) return undefined;
  if (digitsOf(BigInt(base)) * Number(exponent) > limits.maxTemplateDigits) {
    throw new Error(`a number gets more than ${limits.maxTemplateDigits} digits`);
  }
  return toRuntime(BigInt(base) ** BigInt(exponent));
}

/** An estimate: an exact count would take as long as a multiplication. */
function digitsOf(number: bigint): number {
  return number.toString(16).length * 1.21;
}

const comparisons: Readonly<Record<string, (a: Exact, b: Exact) => boolean>> = {
  "<": (a, b) => a < b,
  ">": (a, b) => a > b,
  "<=": (a, b) => a <= b,
  ">=": (a, b) => a >= b,
};

const wholeOperations: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "//": (a, b) => (a - (((a % b) + b) % b)) / b,
  "%": (a, b) => ((a % b) + b) % b,
};

/** The remainder with the sign of the divisor, as in Python. */
function remainder(a: number, b: number): number {
  const rest = a % b;
  return rest === 0 ? 0 : rest + b;
}

/** Whether a `number` would lose digits of an operand or of the result. */
function isLong(compute: (a: bigint, b: bigint) => bigint, a: Exact, b: Exact): boolean {
  if (typeof a === "bigint" || typeof b === "bigint") return true;
  const isSafe = Number.isSafeInteger(a) && Number.isSafeInteger(b);
  if (!isSafe || Math.abs(a) + Math.abs(b) < 2 ** 26 || b === 0) return false;
  const result = compute(BigInt(a), BigInt(b));
  return !Number.isSafeInteger(Number(result));
}

function membership(
  operator: string,
  left: RuntimeValue,
  right: RuntimeValue,
): RuntimeValue | undefined {
  if (!Array.isArray(right.value)) return undefined;
  const isIn = right.value.some((element: RuntimeValue) => areEqual(left, element));
  return toRuntime(isIn === (operator === "in"));
}

/**
 * Whether values are equal: lists and objects by content, as in Python; a text and a number if the
 * text spells it, because fields of CSV are texts.
 */
function areEqual(left: RuntimeValue, right: RuntimeValue): boolean {
  const [a, b] = [numberOf(left), numberOf(right)];
  // biome-ignore lint/suspicious/noDoubleEquals: a bigint equals the number of its value.
  if (a !== undefined && b !== undefined) return a == b;
  if (spells(left, right) || spells(right, left)) return true;
  const { value: one } = left;
  const { value: other } = right;
  if (one === other || left.type !== right.type) return one === other;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((each, at) => areEqual(each, other[at]));
  }
  if (left.type !== "ObjectValue") return false;
  const [fields, others] = [one, other] as Map<string, RuntimeValue>[];
  if (fields!.size !== others!.size) return false;
  return Array.from(fields!).every(([name, field]) => {
    const same = others!.get(name);
    return same !== undefined && areEqual(field, same);
  });
}

/** Whether a text is a number of JSON with the value of another. */
function spells({ value: text }: RuntimeValue, other: RuntimeValue): boolean {
  const number = exactNumber(other);
  if (number === undefined || typeof text !== "string") return false;
  // The work of a step is charged by its right side alone, and the text may be the left one.
  if (text.length > limits.maxTemplateDigits) return false;
  if (!/^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text)) return false;
  // biome-ignore lint/suspicious/noDoubleEquals: a bigint equals the number of its value.
  return new WrittenNumber(text).exact == number;
}

function numberOf(value: RuntimeValue): Exact | undefined {
  return value.type === "BooleanValue" ? Number(value.value) : exactNumber(value);
}
