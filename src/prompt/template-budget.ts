import { type WrittenJson, WrittenNumber } from "../foundation/exact-json.ts";
import { limits } from "../foundation/limits.ts";
import type { RuntimeValue } from "./jinja-library.ts";

/** What one step of a template costs, in characters that it could handle in that time. */
const stepCost = 100;
/** The same of an element that is made, by the memory that it takes … */
const elementCost = 50;
/** … and of one that is read, or stands in one more list. */
const placeCost = 6;

/** A template asks too much for one row. The interpreter adds the name of the prompt. */
export class TemplateExcess extends Error {}

/** What rendering one prompt of one row may still cost. */
export class TemplateBudget {
  #rest: number = limits.maxTemplateWork;
  #rowElements = 0;

  /** Takes `steps` steps from what is left. */
  spend(steps: number): void {
    this.#take(steps * stepCost);
  }

  /** Takes the reading of a value, with all that lies inside. */
  read(value: RuntimeValue): void {
    const { chars, elements } = extentOf(value);
    this.#take(typeof value.value === "string" ? chars : elements * placeCost);
  }

  /** Takes what a step gave: its characters, or its places for elements. */
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

  /** Takes the making or the printing of elements, those further inside too where `isDeep`. */
  created({ value }: RuntimeValue, isDeep = false): void {
    if (!isContainer(value)) return;
    this.#take((isDeep ? extentOf({ value }).elements : sizeOf(value)) * elementCost);
  }

  /** Counts what the interpreter is to hold of the row. */
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

/** @throws Error where a template asks for more blanks at once than a text needs. */
export function assertWidth(name: string, width: unknown): void {
  if (Number(width) <= limits.maxTemplateWidth) return;
  throw new Error(`${name} takes a width up to ${limits.maxTemplateWidth}, not ${String(width)}`);
}

/** What lies inside a value, however deep: lists that stand in it twice count twice. */
interface Extent {
  chars: number;
  elements: number;
  depth: number;
  /** Nothing inside may change: it is not a namespace. */
  isFixed: boolean;
}

type Container = readonly RuntimeValue[] | ReadonlyMap<string, RuntimeValue>;

/** What has fewer elements is counted again, which takes less time than a look for it. */
const minKeptElements = 256;
/** Those of containers that nothing changes any more. */
const extents = new WeakMap<Container, Extent>();

/** Once it exceeds a limit, it is not counted any further. */
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
