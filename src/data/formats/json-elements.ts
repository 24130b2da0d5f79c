import { SluiceError } from "../../foundation/errors.ts";

const quote = 34;
const backslash = 92;
const newline = 10;
const comma = 44;
const openBracket = 91;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;

/** Gets the byte offsets in the file at which records begin and end. */
export interface ElementListener {
  start(offset: number, line: number): void;
  /** `offset` is the byte after the element. Not called for a record that is the whole file. */
  end(offset: number): void;
}

/** Where in the file the scanned bytes begin. */
interface ElementPlace {
  file: string;
  start: number;
  firstLine: number;
  isPart: boolean;
}

type Phase =
  | "before"
  | "array-start"
  | "before-element"
  | "element"
  | "object"
  | "behind-object"
  | "rest"
  | "after";

/**
 * Finds the boundaries of the elements of a JSON array, or of the single record in a file that is
 * not an array. It looks at brackets, quotes and commas only: the content between the boundaries
 * may be broken.
 */
export class ElementScanner {
  readonly #file: string;
  readonly #listener: ElementListener;
  #phase: Phase;
  /** Offset in the file of the current chunk. */
  #base: number;
  #line: number;
  #elementLine = 1;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  readonly #isPart: boolean;

  /**
   * @param place a `start` above 0 is a boundary between elements of the array, as a cut leaves it.
   *   `isPart`: text after the array is ignored.
   */
  constructor({ file, start, firstLine, isPart }: ElementPlace, listener: ElementListener) {
    this.#file = file;
    this.#isPart = isPart;
    this.#listener = listener;
    this.#base = start;
    this.#line = firstLine;
    this.#phase = start === 0 ? "before" : "before-element";
  }

  /** @throws SluiceError `INPUT_UNREADABLE` if the boundaries can no longer be found. */
  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#isInString) at = this.#passString(chunk, at);
      else if (this.#phase === "element" || this.#phase === "object") at = this.#pass(chunk, at);
      else if (this.#phase === "rest" || this.#isBehind) at = chunk.length;
      else at = this.#between(chunk, at);
    }
    this.#base += chunk.length;
  }

  /** Call it at the end of the file. */
  end(): void {
    if (["after", "object", "behind-object", "rest"].includes(this.#phase)) return;
    if (this.#phase === "before") throw this.#fault("the file holds no JSON");
    throw this.#fault("the array never closes; its last record begins here", this.#elementLine);
  }

  get #isBehind(): boolean {
    return this.#isPart && this.#phase === "after";
  }

  #between(chunk: Buffer, at: number): number {
    const code = chunk[at]!;
    if (code === newline) this.#line++;
    if (code === 32 || code === 9 || code === 13 || code === newline) return at + 1;
    if (this.#phase === "before") return this.#top(code, at);
    if (this.#phase === "after") throw this.#fault("text follows the end of the array");
    if (this.#phase === "behind-object") return this.#behindObject(code, at);
    if (code === closeBracket && this.#phase === "array-start") {
      this.#phase = "after";
      return at + 1;
    }
    if (code === comma || code === closeBracket) throw this.#fault("an element is missing");
    this.#begin("element", at);
    return at;
  }

  #top(code: number, at: number): number {
    if (code === openBracket) {
      this.#phase = "array-start";
      return at + 1;
    }
    this.#begin(code === openBrace ? "object" : "rest", at);
    return at;
  }

  /** After an object, a second object is another row; any other text makes this row invalid. */
  #behindObject(code: number, at: number): number {
    if (code === openBrace) {
      throw this.#fault("another object follows the first one", this.#line, {
        hint: "if each line is an object of its own, set input.format to jsonl",
      });
    }
    if (code !== comma) this.#phase = "rest";
    return at + 1;
  }

  #begin(phase: "element" | "object" | "rest", at: number): void {
    this.#phase = phase;
    this.#depth = 0;
    this.#elementLine = this.#line;
    this.#listener.start(this.#base + at, this.#line);
  }

  /** Continues through a record until it ends or a string begins. */
  #pass(chunk: Buffer, start: number): number {
    for (let at = start; at < chunk.length; at++) {
      const code = chunk[at]!;
      if (code === quote) {
        this.#isInString = true;
        return at + 1;
      }
      if (code === newline) {
        this.#line++;
      } else if (code === openBrace || code === openBracket) {
        this.#depth++;
      } else if (code === closeBrace || code === closeBracket) {
        if (this.#depth === 0) return this.#closeArray(code, at);
        this.#depth--;
        if (this.#depth === 0 && this.#phase === "object") {
          this.#phase = "behind-object";
          return at + 1;
        }
      } else if (code === comma && this.#depth === 0) {
        return this.#finish("before-element", at) + 1;
      }
    }
    return chunk.length;
  }

  #closeArray(code: number, at: number): number {
    if (code === closeBrace) throw this.#fault("a closing brace has no opening one");
    return this.#finish("after", at) + 1;
  }

  #finish(phase: Phase, at: number): number {
    this.#phase = phase;
    this.#listener.end(this.#base + at);
    return at;
  }

  #passString(chunk: Buffer, start: number): number {
    for (let at = start; at < chunk.length; at++) {
      const code = chunk[at]!;
      if (code === newline) this.#line++;
      if (this.#isEscaped) {
        this.#isEscaped = false;
      } else if (code === quote) {
        this.#isInString = false;
        return at + 1;
      } else if (code === backslash) {
        this.#isEscaped = true;
      }
    }
    return chunk.length;
  }

  #fault(detail: string, line = this.#line, options: { hint?: string } = {}): SluiceError {
    const hint = options.hint ?? "correct the file, or leave it out";
    return new SluiceError("INPUT_UNREADABLE", detail, { file: this.#file, line, hint });
  }
}
