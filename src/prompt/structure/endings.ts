import { limits } from "../../foundation/limits.ts";
import { jobInvalid } from "../answer-form.ts";
import type { Shape, Shapes } from "./shape.ts";

/**
 * Refuses a schema that no answer can match because it refers to itself: without end (`a` needs an
 * `a` inside), or directly (`a` is an `a`).
 *
 * @throws SluiceError `JOB_INVALID`.
 */
export function assertWritable(shapes: Shapes, key: string): void {
  assertSettled(shapes, key);
  const ending = new Set<string>();
  for (let before = -1; before < ending.size; ) {
    before = ending.size;
    for (const [name, shape] of shapes.rules) if (canEnd(shape, ending)) ending.add(name);
  }
  const endless = [...shapes.rules.keys()].find((name) => !ending.has(name));
  if (endless !== undefined) {
    throw jobInvalid(key, `${endless} needs itself inside without end, so that no answer fits`);
  }
}

/** Removes rules that refer to none of the remaining rules. Any that stay never end: an error. */
function assertSettled({ rules }: Shapes, key: string): void {
  let left = new Map([...rules].map(([name, shape]) => [name, nextReferences(shape)] as const));
  for (let links = 0; left.size > 0; links++) {
    const rest = new Map([...left].filter(([, next]) => next.some((name) => left.has(name))));
    if (rest.size === left.size) {
      throw jobInvalid(key, `${onCircle(left)} refers to itself with nothing in between`);
    }
    if (links > limits.maxSchemaDepth) {
      const most = limits.maxSchemaDepth;
      throw jobInvalid(key, `it has more than ${most} references that follow on one another`);
    }
    left = rest;
  }
}

/** Each rule refers to another one, so following the references leads into a circle. */
function onCircle(rules: ReadonlyMap<string, readonly string[]>): string {
  const seen = new Set<string>();
  let [name] = rules.keys();
  while (!seen.has(name!)) {
    seen.add(name!);
    name = rules.get(name!)!.find((next) => rules.has(next));
  }
  return name!;
}

/** References that the shape's own value may be, not parts of it. */
function nextReferences(shape: Shape): string[] {
  if (shape.kind === "reference") return [shape.name];
  return shape.kind === "alternatives" ? shape.shapes.flatMap(nextReferences) : [];
}

function canEnd(shape: Shape, ending: ReadonlySet<string>): boolean {
  switch (shape.kind) {
    case "reference":
      return ending.has(shape.name);
    case "alternatives":
      return shape.shapes.some((inner) => canEnd(inner, ending));
    case "object":
      return shape.properties.every(
        ({ shape: inner, isRequired }) => !isRequired || canEnd(inner, ending),
      );
    case "array": {
      const needed = shape.first.slice(0, shape.minItems);
      const needsRest = shape.minItems > shape.first.length && shape.rest !== undefined;
      return [...needed, ...(needsRest ? [shape.rest!] : [])].every((it) => canEnd(it, ending));
    }
    default:
      return true;
  }
}
