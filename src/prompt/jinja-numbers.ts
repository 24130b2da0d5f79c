import { WrittenNumber } from "../foundation/exact-json.ts";
import { limits } from "../foundation/limits.ts";
import { type RuntimeValue, toRuntime } from "./jinja-library.ts";

type Exact = number | bigint;

/** A number to calculate with: a `bigint` if it is whole and long. Undefined for other values. */
export function exactNumber({ type, value }: RuntimeValue): Exact | undefined {
  if (type !== "IntegerValue" && type !== "FloatValue") return undefined;
  return value instanceof WrittenNumber ? value.exact : (value as number);
}

/**
 * The result of an operator on two numbers, if a `number` would lose digits: whole numbers keep all
 * digits, however long. Otherwise undefined, and the library calculates.
 */
export function calculated(
  operator: string,
  left: RuntimeValue,
  right: RuntimeValue,
): RuntimeValue | undefined {
  if (operator === "in" || operator === "not in") return membership(operator, left, right);
  const [a, b] = [exactNumber(left), exactNumber(right)];
  if (a === undefined || b === undefined) return undefined;
  const compare = comparisons[operator];
  if (compare !== undefined) return toRuntime(compare(a, b));
  const isWhole = left.type === "IntegerValue" && right.type === "IntegerValue";
  const compute = isWhole ? wholeOperations[operator] : undefined;
  if (compute === undefined || !isLong(compute, a, b)) return undefined;
  const [first, second] = [BigInt(a), BigInt(b)];
  if (operator === "*" && digitsOf(first) + digitsOf(second) > limits.maxTemplateDigits) {
    throw new Error(`a number gets more than ${limits.maxTemplateDigits} digits`);
  }
  return toRuntime(compute(first, second));
}

/** An estimate: an exact count would take as long as a multiplication. */
function digitsOf(number: bigint): number {
  return number.toString(16).length * 1.21;
}

const comparisons: Readonly<Record<string, (a: Exact, b: Exact) => boolean>> = {
  // biome-ignore lint/suspicious/noDoubleEquals: a bigint equals the number of its value.
  "==": (a, b) => a == b,
  // biome-ignore lint/suspicious/noDoubleEquals: a bigint equals the number of its value.
  "!=": (a, b) => a != b,
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
  "%": (a, b) => a % b,
};

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
  const number = exactNumber(left);
  if (number === undefined || !Array.isArray(right.value)) return undefined;
  // biome-ignore lint/suspicious/noDoubleEquals: a bigint equals the number of its value.
  const isIn = right.value.some((element: RuntimeValue) => exactNumber(element) == number);
  return toRuntime(isIn === (operator === "in"));
}
