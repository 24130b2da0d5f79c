import {
  characters,
  choice,
  type GrammarNode,
  optional,
  repeat,
  sequence,
  text,
} from "../../foundation/grammar.ts";
import { limits } from "../../foundation/limits.ts";
import type { NumberShape } from "./shape.ts";

/** Largest number of integers between two bounds that a grammar lists. */
export const maxEnumeratedIntegers = 256;

/**
 * The grammar of a shape's numbers, without exponents. Integers between near bounds are listed. For
 * other numbers, the bounds decide the sign and the number of digits.
 */
export function numberGrammar(shape: NumberShape): GrammarNode {
  const [low, high] = boundsOf(shape);
  if (shape.isInteger) {
    // Larger ones are not written; and from 2^53 on, `value + 1` may be `value`.
    const largest = 10 ** limits.maxNumberDigits - 1;
    const [first, last] = [Math.max(low, -largest), Math.min(high, largest)];
    const exact = between(Math.ceil(first), Math.floor(last), shape);
    if (exact !== undefined) return exact;
  }
  const most = Math.trunc(Math.max(Math.abs(low), Math.abs(high)));
  const digits = Math.min(
    limits.maxNumberDigits,
    Number.isSafeInteger(most) ? String(most).length : limits.maxNumberDigits,
  );
  const items: GrammarNode[] = [wholeNumber(digits)];
  if (high < 0) items.unshift(text("-"));
  else if (low < 0) items.unshift(optional(text("-")));
  if (!shape.isInteger) items.push(optional(fraction));
  return sequence(...items);
}

/** True if a number is valid for the shape. */
export function fitsNumber(value: number, shape: NumberShape): boolean {
  if (shape.isInteger && !Number.isInteger(value)) return false;
  if (value < shape.minimum || value > shape.maximum) return false;
  if (value <= shape.exclusiveMinimum || value >= shape.exclusiveMaximum) return false;
  return shape.multipleOf === undefined || isMultiple(value, shape.multipleOf);
}

/** Decimal quotients are inexact, so they are rounded: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, of: number): boolean {
  if (Number.isInteger(value) && Number.isInteger(of)) return value % of === 0;
  const quotient = value / of;
  const inexactness = 4 * Number.EPSILON * Math.max(1, Math.abs(quotient));
  return Math.abs(quotient - Math.round(quotient)) <= inexactness;
}

/** False if a grammar can tell that no number is valid. */
export function hasNumbers(shape: NumberShape): boolean {
  const grammar = numberGrammar(shape);
  return grammar.kind !== "choice" || grammar.items.length > 0;
}

function boundsOf(shape: NumberShape): [low: number, high: number] {
  return [
    Math.max(shape.minimum, shape.exclusiveMinimum),
    Math.min(shape.maximum, shape.exclusiveMaximum),
  ];
}

function between(low: number, high: number, shape: NumberShape): GrammarNode | undefined {
  if (!(high - low < maxEnumeratedIntegers)) return undefined;
  const items: GrammarNode[] = [];
  for (let value = low; value <= high; value++) {
    if (fitsNumber(value, shape)) items.push(text(`${value}`));
  }
  return choice(items);
}

const digit = characters([[0x30, 0x39]]);
const fraction = sequence(text("."), repeat(digit, 1, limits.maxNumberDigits));

function wholeNumber(digits: number): GrammarNode {
  return choice([text("0"), sequence(characters([[0x31, 0x39]]), repeat(digit, 0, digits - 1))]);
}
