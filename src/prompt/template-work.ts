import { type WrittenJson, WrittenNumber } from "../foundation/exact-json.ts";
import { limits } from "../foundation/limits.ts";
import type { RuntimeValue } from "./jinja-library.ts";

/** Cost of one step of a template, in characters that could be processed in the same time. */
const stepCost = 100;
/** Cost of an element that is made, for the memory that it takes … */
const elementCost = 50;
/** … and of an element that is read or put into one more list. */
const placeCost = 6;

/** A template needs too much for one row. The interpreter adds the name of the prompt. */
export class TemplateExcess extends Error {}

/** The work that rendering one prompt of one row may still take. */
export class TemplateWork {
  #rest: number = limits.maxTemplateWork;
  #rowElements = 0;

  /** Charges `steps` steps. */
  spend(steps: number): void {
    this.#take(steps * stepCost);
  }

  /** Charges for passing over characters. */
  passed(chars: number): void {
    this.#take(chars);
  }

  /** Charges for reading a value with everything inside. */
  read(value: RuntimeValue): void {
    const { chars, elements } = extentOf(value);
    this.#take(typeof value.value === "string" ? chars : elements * placeCost);
  }

  /** Charges for the result of a step: its characters or its elements. */
  made({ value }: Pick<RuntimeValue, "value">): void {
    if (typeof value === "string") {
      assertChars(value.length);
      this.#take(value.length);
    } else if (isContainer(value)) {
      this.#take(sizeOf(value) * placeCost);
      const { chars, elements } = extentOf({ value });
      assertChars(chars);
      assertElements(elements);
    }
  }

  /** Charges for making or printing elements; if `isDeep`, nested ones too. */
  created({ value }: RuntimeValue, isDeep = false): void {
    if (!isContainer(value)) return;
    this.#take((isDeep ? extentOf({ value }).elements : sizeOf(value)) * elementCost);
  }

  /** Checks the size of a row's value before the interpreter holds it. */
  held(value: WrittenJson): void {
    if (typeof value !== "object" || value === null || value instanceof WrittenNumber) return;
    for (const inner of Object.values(value)) {
      assertElements(++this.#rowElements);
      this.held(inner);
    }
  }

  #take(work: number): void {
    this.#rest -= work;
    if (this.#rest < 0) throw new TemplateExcess("it takes too many steps for this row");
  }
}

/** @throws TemplateExcess */
export function assertElements(count: number): void {
  if (count <= limits.maxTemplateElements) return;
  throw new TemplateExcess(
    `a list gets more than ${limits.maxTemplateElements.toLocaleString("en")} elements`,
  );
}

/** @throws TemplateExcess */
export function assertChars(count: number): void {
  if (count <= limits.maxTemplateChars) return;
  throw new TemplateExcess(
    `its text gets longer than ${limits.maxTemplateChars.toLocaleString("en")} characters`,
  );
}

/** @throws Error if a template wants wider padding than any text needs. */
export function assertWidth(name: string, width: unknown): void {
  if (Number(width) <= limits.maxTemplateWidth) return;
  throw new Error(`${name} takes a width up to ${limits.maxTemplateWidth}, not ${String(width)}`);
}

/** The size of a value with everything inside. A list that occurs twice counts twice. */
interface Extent {
  chars: number;
  elements: number;
  depth: number;
  /** True if nothing inside can change, so that the size may be remembered. */
  isFixed: boolean;
}

type Container = readonly RuntimeValue[] | ReadonlyMap<string, RuntimeValue>;

/** A smaller value is measured again, which is faster than looking it up. */
const minKeptElements = 256;
/** Sizes of containers that can no longer change. */
const extents = new WeakMap<Container, Extent>();

/** Measures a value; stops as soon as it exceeds a limit. */
export function extentOf({ type, value }: { type?: string; value: unknown }): Extent {
  if (!isContainer(value)) {
    const text = value instanceof WrittenNumber ? value.text : value;
    const chars = typeof text === "string" ? text.length : 0;
    return { chars, elements: 0, depth: 0, isFixed: true };
  }
  const known = extents.get(value);
  if (known !== undefined) return known;
  const extent: Extent = { chars: 0, elements: 0, depth: 1, isFixed: type !== "NamespaceValue" };
  if (value instanceof Map) for (const key of value.keys()) extent.chars += key.length;
  for (const inner of value.values()) {
    extent.elements++;
    if (typeof inner.value === "string") extent.chars += inner.value.length;
    else if (typeof inner.value === "object") add(extentOf(inner), extent);
    if (extent.elements > limits.maxTemplateElements) break;
    if (extent.chars > limits.maxTemplateChars) break;
  }
  if (extent.isFixed && extent.elements >= minKeptElements) extents.set(value, extent);
  return extent;
}

function add({ chars, elements, depth, isFixed }: Extent, outer: Extent): void {
  outer.chars += chars;
  outer.elements += elements;
  outer.depth = Math.max(outer.depth, depth + 1);
  outer.isFixed &&= isFixed;
}

function isContainer(value: unknown): value is Container {
  return Array.isArray(value) || value instanceof Map;
}

function sizeOf(value: Container): number {
  return "size" in value ? value.size : value.length;
}
