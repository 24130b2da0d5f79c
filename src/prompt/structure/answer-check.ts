import { isDeepStrictEqual } from "node:util";
import type { Slot, SpanOffsets } from "../../foundation/inference.ts";
import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { locateSpan, trimSpan, wholePattern, wordsOf } from "../../foundation/spans.ts";
import { clipped } from "../../foundation/suggest.ts";
import { kindOf, spacedJson } from "../value-text.ts";
import { fitsNumber } from "./number-grammar.ts";
import type {
  AlternativesShape,
  ArrayShape,
  CopyShape,
  NumberShape,
  ObjectShape,
  Shape,
  Shapes,
  StringShape,
} from "./shape.ts";

/** An answer after the check against its schema. */
export interface CheckedAnswer {
  /** The answer, with copied texts in their sources' own spelling. */
  value: Json;
  /** What is wrong with it, each problem with a JSON Pointer; empty if it is right. */
  problems: readonly string[];
  /** Where copied texts stand in their sources, by JSON Pointer. */
  spans: Readonly<Record<string, SpanOffsets>>;
}

/**
 * Checks a parsed answer against its schema, and copied texts against their sources.
 *
 * @param slots the sources, by key of the copying field.
 */
export function checkAnswer(
  value: Json,
  shapes: Shapes,
  slots: ReadonlyMap<string, Slot>,
): CheckedAnswer {
  const check = new Check(shapes, slots);
  const kept = check.value(value, shapes.root, "");
  return { value: kept, problems: check.problems, spans: check.spans };
}

/** `/items/0/temperature`, or words for the answer itself. */
function place(pointer: string): string {
  return pointer === "" ? "the answer" : pointer;
}

function isAmong(value: Json, values: readonly Json[]): boolean {
  if (typeof value !== "object" || value === null) return values.includes(value);
  return values.some((one) => isDeepStrictEqual(one, value));
}

class Check {
  readonly problems: string[] = [];
  readonly spans: Record<string, SpanOffsets> = {};
  readonly #shapes: Shapes;
  readonly #slots: ReadonlyMap<string, Slot>;

  constructor(shapes: Shapes, slots: ReadonlyMap<string, Slot>) {
    this.#shapes = shapes;
    this.#slots = slots;
  }

  /** Records what is wrong, and returns the value to keep. */
  value(value: Json, shape: Shape, pointer: string): Json {
    switch (shape.kind) {
      case "constants":
        if (isAmong(value, shape.values)) return value;
        return this.#refuse(value, pointer, `one of ${shape.values.map(spacedJson).join(", ")}`);
      case "boolean":
        return typeof value === "boolean" ? value : this.#refuse(value, pointer, "true or false");
      case "null":
        return value === null ? value : this.#refuse(value, pointer, "null");
      case "string":
        return this.#string(value, shape, pointer);
      case "number":
        return this.#number(value, shape, pointer);
      case "array":
        return this.#array(value, shape, pointer);
      case "object":
        return this.#object(value, shape, pointer);
      case "alternatives":
        return this.#alternatives(value, shape, pointer);
      case "copy":
        return this.#copy(value, shape, pointer);
      case "reference":
        return this.value(value, this.#shapes.rules.get(shape.name)!, pointer);
    }
  }

  #refuse(value: Json, pointer: string, expected: string): Json {
    const isShort = !isJsonObject(value) && !Array.isArray(value);
    const shown = isShort ? clipped(JSON.stringify(value)) : kindOf(value);
    this.problems.push(`${place(pointer)} must be ${expected}, not ${shown}`);
    return value;
  }

  #string(value: Json, shape: StringShape, pointer: string): Json {
    if (typeof value !== "string") return this.#refuse(value, pointer, "a text");
    const { minLength, maxLength = Infinity, pattern } = shape;
    const length = [...value].length;
    if (length < minLength || length > maxLength) {
      const bound = length < minLength ? `at least ${minLength}` : `at most ${maxLength}`;
      this.problems.push(`${place(pointer)} must have ${bound} characters, not ${length}`);
    }
    if (pattern !== undefined && !pattern.compiled.test(value)) {
      const shown = clipped(JSON.stringify(value));
      this.problems.push(`${place(pointer)} does not match ${pattern.text}: ${shown}`);
    }
    return value;
  }

  #number(value: Json, shape: NumberShape, pointer: string): Json {
    const isNumber = typeof value === "number" && Number.isFinite(value);
    if (isNumber && fitsNumber(value, shape)) return value;
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = shape;
    const bounds = [
      Number.isFinite(minimum) ? `at least ${minimum}` : "",
      Number.isFinite(exclusiveMinimum) ? `above ${exclusiveMinimum}` : "",
      Number.isFinite(maximum) ? `at most ${maximum}` : "",
      Number.isFinite(exclusiveMaximum) ? `below ${exclusiveMaximum}` : "",
      multipleOf === undefined ? "" : `a multiple of ${multipleOf}`,
    ].filter((bound) => bound !== "");
    const kind = shape.isInteger ? "a whole number" : "a number";
    return this.#refuse(value, pointer, [kind, ...bounds].join(", "));
  }

  #array(value: Json, shape: ArrayShape, pointer: string): Json {
    if (!Array.isArray(value)) return this.#refuse(value, pointer, "a list");
    const { first, rest, minItems, maxItems = Infinity, uniqueItems } = shape;
    if (value.length < minItems || value.length > maxItems) {
      const bound = value.length < minItems ? `at least ${minItems}` : `at most ${maxItems}`;
      this.problems.push(`${place(pointer)} must have ${bound} elements, not ${value.length}`);
    }
    if (uniqueItems && new Set(value.map(canonicalJson)).size < value.length) {
      this.problems.push(`${place(pointer)} has an element twice`);
    }
    return value.map((element, at) => {
      const shapeHere = first[at] ?? rest;
      return shapeHere === undefined ? element : this.value(element, shapeHere, `${pointer}/${at}`);
    });
  }

  #object(value: Json, { properties }: ObjectShape, pointer: string): Json {
    if (!isJsonObject(value)) return this.#refuse(value, pointer, "an object");
    const stray = Object.keys(value).find((key) => !properties.some(({ name }) => name === key));
    if (stray !== undefined) {
      const known = properties.map(({ name }) => name).join(", ");
      this.problems.push(`${below(pointer, stray)} is not asked for; properties: ${known}`);
    }
    const entries: [string, Json][] = [];
    for (const { name, shape, isRequired } of properties) {
      const inner = Object.hasOwn(value, name) ? value[name] : undefined;
      const innerPointer = below(pointer, name);
      if (inner !== undefined) entries.push([name, this.value(inner, shape, innerPointer)]);
      else if (isRequired) this.problems.push(`${innerPointer} is missing`);
    }
    return Object.fromEntries(entries) as JsonObject;
  }

  #alternatives(value: Json, { shapes, isExclusive }: AlternativesShape, pointer: string): Json {
    const tries = shapes.map((shape) => {
      const check = new Check(this.#shapes, this.#slots);
      return { check, value: check.value(value, shape, pointer) };
    });
    const right = tries.filter(({ check }) => check.problems.length === 0);
    const [first, second] = right;
    if (first === undefined) {
      // Of several forms, the one with its fault deepest inside was most likely meant.
      const meant = tries.toSorted((a, b) => faultDepth(b.check) - faultDepth(a.check))[0]!;
      if (faultDepth(meant.check) > depthOf(pointer)) this.problems.push(...meant.check.problems);
      else this.#refuse(value, pointer, expectations(tries.map(({ check }) => check)));
      return value;
    }
    if (isExclusive && second !== undefined) {
      this.problems.push(`${place(pointer)} fits two of the forms of which it must have one`);
    }
    Object.assign(this.spans, first.check.spans);
    return first.value;
  }

  #copy(value: Json, shape: CopyShape, pointer: string): Json {
    const read = readCopied(value, shape, this.#slots.get(shape.key)!);
    if ("problem" in read) {
      this.problems.push(`${place(pointer)} ${read.problem}`);
      return value;
    }
    if (read.span !== undefined) this.spans[pointer] = read.span;
    return read.value;
  }
}

function below(pointer: string, name: string): string {
  return `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function depthOf(pointer: string): number {
  return pointer.split("/").length;
}

/** Depth of the first fault: `/a/0 must be …` is deeper than `/a must be …`. */
function faultDepth({ problems }: Check): number {
  const pointer = /^\/\S*/.exec(problems[0]!)?.[0] ?? "";
  return depthOf(pointer);
}

/** What each form expects, without what it got. */
function expectations(checks: readonly Check[]): string {
  const expected = checks.map(({ problems }) => /must be (.*), not /s.exec(problems[0]!)?.[1]);
  const known = expected.filter((text) => text !== undefined);
  return known.length === 0 ? "one of the forms of the schema" : [...new Set(known)].join(" or ");
}

/** The value of a copying field, or what is wrong with it. */
type CopiedText = { value: string | null; span: SpanOffsets | undefined } | { problem: string };

/**
 * Finds a copied text in its source. Letter case and outer punctuation may differ; the value has
 * the source's spelling.
 *
 * @param shape the field's schema; `slot` has the text to copy from.
 */
function readCopied(value: Json, shape: CopyShape, slot: Slot): CopiedText {
  const { orElse, maxWords, pattern } = shape;
  if (value === orElse) return { value, span: undefined };
  const otherwise = `write ${JSON.stringify(orElse)} where there is nothing to copy`;
  if (typeof value !== "string") {
    return { problem: `must be a text, not ${kindOf(value)}; ${otherwise}` };
  }
  const shown = JSON.stringify(clipped(value));
  const words = wordsOf(trimSpan(value)).length;
  if (words > maxWords) {
    return { problem: `has ${words} words (${shown}), at most ${maxWords} are allowed` };
  }
  const span = locateSpan(slot, value);
  if (span === undefined || span.text === "") {
    const source = JSON.stringify(clipped(slot.source.replace(/\s+/gu, " ").trim()));
    return { problem: `is ${shown}, not copied word by word from ${source}; ${otherwise}` };
  }
  if (pattern !== undefined && !wholePattern(pattern).test(span.text)) {
    return { problem: `is ${shown}, which does not have the form ${pattern}; ${otherwise}` };
  }
  return { value: span.text, span: [span.start, span.end] };
}
