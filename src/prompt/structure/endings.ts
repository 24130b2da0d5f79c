import { jobInvalid } from "../answer-form.ts";
import type { Shape, Shapes } from "./shape.ts";

/**
 * Refuses schemas that no answer could ever fulfil, because they refer to themselves: without an
 * end (`a` needs an `a` inside), or without anything in between (`a` is an `a`).
 *
 * @throws SluiceError `JOB_INVALID`.
 */
export function assertWritable(shapes: Shapes, key: string): void {
  for (const name of shapes.rules.keys()) {
    if (isOnlyItself(name, name, shapes, new Set())) {
      throw jobInvalid(key, `${name} refers to itself with nothing in between`);
    }
  }
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

function isOnlyItself(name: string, wanted: string, shapes: Shapes, seen: Set<string>): boolean {
  if (seen.has(name)) return false;
  seen.add(name);
  return nextReferences(shapes.rules.get(name)!).some(
    (next) => next === wanted || isOnlyItself(next, wanted, shapes, seen),
  );
}

/** Rules that a value of the shape may be as a whole. */
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
