import { SluiceError } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import type { RuntimeValue } from "./jinja-library.ts";

/** What one step of a template costs, in characters that it could handle in that time. */
const stepCost = 100;

/** What rendering one prompt of one row may still cost. */
export class TemplateBudget {
  readonly #name: string;
  #rest: number = limits.maxTemplateWork;

  /** @param name of the prompt, for messages. */
  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Takes `steps` steps, and the reading of a value, from what is left.
   *
   * @throws SluiceError `TEMPLATE_TOO_COSTLY`.
   */
  spend(steps: number, read?: RuntimeValue): void {
    this.#rest -= steps * stepCost + (read === undefined ? 0 : sizeOf(read));
    if (this.#rest < 0) throw this.#tooCostly("it takes too many steps for this row");
  }

  /**
   * Takes what was made from what is left.
   *
   * @throws SluiceError `TEMPLATE_TOO_COSTLY`.
   */
  made(value: RuntimeValue): void {
    const size = sizeOf(value);
    if (size > limits.maxTemplateChars) throw this.#tooCostly("its text gets too long");
    this.#rest -= size;
  }

  #tooCostly(problem: string): SluiceError {
    return new SluiceError("TEMPLATE_TOO_COSTLY", `${this.#name}: ${problem}`);
  }
}

/** Characters, elements or digits. */
function sizeOf({ value }: RuntimeValue): number {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return value instanceof Map ? value.size : 0;
}

/** @throws Error where a template asks for more blanks at once than a text needs. */
export function assertWidth(name: string, width: unknown): void {
  if (Number(width) <= limits.maxTemplateWidth) return;
  throw new Error(`${name} takes a width up to ${limits.maxTemplateWidth}, not ${String(width)}`);
}
