import { SluiceError } from "../../../foundation/errors.ts";

const quote = 34;
const newline = 10;
const carriageReturn = 13;

/** Gets the byte offsets in the file at which records begin and end. */
export interface RecordListener {
  start(offset: number, line: number): void;
  /**
   * `offset` is the byte after the record, without its line end. A record is malformed if text
   * follows a closing quote: its meaning is unknown.
   */
  end(offset: number, isMalformed: boolean): void;
}

type State = "record" | "field" | "unquoted" | "quoted" | "after-quote" | "after-return";

/**
 * Finds the boundaries of records in delimited text. A line end within quotes is not a boundary.
 * Empty lines are skipped. Only single bytes are looked at, so the content may be broken.
 */
export class RecordScanner {
  readonly #file: string;
  readonly #delimiter: number;
  readonly #listener: RecordListener;
  /** Offset in the file of the current chunk. */
  #base: number;
  #line: number;
  #state: State = "record";
  #isMalformed = false;
  #endsWithReturn = false;
  #quoteLine = 0;
  #firstMalformedLine: number | undefined;

  /**
   * @param start offset of the first byte that will be pushed, between two records, on line
   *   `firstLine`.
   * @param delimiter code of the byte between fields.
   */
  constructor(
    file: string,
    { start, firstLine, delimiter }: { start: number; firstLine: number; delimiter: number },
    listener: RecordListener,
  ) {
    this.#file = file;
    this.#base = start;
    this.#line = firstLine;
    this.#delimiter = delimiter;
    this.#listener = listener;
  }

  /** Takes the next bytes. They may end with a carriage return only at the end of the file. */
  push(chunk: Buffer): void {
    let nextQuote = chunk.indexOf(quote);
    for (let at = 0; at < chunk.length; ) {
      if (this.#state !== "record") {
        at = this.#walk(chunk, at);
        continue;
      }
      const end = chunk.indexOf(newline, at);
      const last = end < 0 ? chunk.length : end;
      if (last === at || (last === at + 1 && chunk[at] === carriageReturn)) {
        this.#line++;
        at = last + 1;
        continue;
      }
      this.#listener.start(this.#base + at, this.#line);
      if (nextQuote >= 0 && nextQuote < at) nextQuote = chunk.indexOf(quote, at);
      const isPlainLine = end >= 0 && (nextQuote < 0 || nextQuote > end);
      if (isPlainLine) at = this.#finish(chunk, end);
      else this.#state = "field";
    }
    this.#base += chunk.length;
    this.#endsWithReturn = chunk.at(-1) === carriageReturn;
  }

  /**
   * Call it at the end of the file.
   *
   * @throws SluiceError `INPUT_UNREADABLE` if a quote never closes.
   */
  end(): void {
    if (this.#state === "quoted") throw this.#unclosed();
    if (this.#state === "record") return;
    this.#listener.end(this.#base - (this.#endsWithReturn ? 1 : 0), this.#isMalformed);
  }

  /** Continues byte by byte to the end of the record; returns the index after it. */
  #walk(chunk: Buffer, start: number): number {
    for (let at = start; at < chunk.length; at++) {
      if (this.#state === "quoted") {
        at = this.#passQuoted(chunk, at);
        continue;
      }
      const code = chunk[at]!;
      if (code === newline) return this.#finish(chunk, at);
      this.#state = this.#next(code);
    }
    return chunk.length;
  }

  /** Continues to the next quote; returns its index. */
  #passQuoted(chunk: Buffer, start: number): number {
    const found = chunk.indexOf(quote, start);
    const end = found < 0 ? chunk.length : found;
    let lineEnd = chunk.indexOf(newline, start);
    while (lineEnd >= 0 && lineEnd < end) {
      this.#line++;
      lineEnd = chunk.indexOf(newline, lineEnd + 1);
    }
    if (found >= 0) this.#state = "after-quote";
    return end;
  }

  #next(code: number): State {
    const state = this.#state;
    if (code === quote && state === "field") {
      this.#quoteLine = this.#line;
      return "quoted";
    }
    if (code === quote && state === "after-quote") return "quoted";
    if (code === this.#delimiter) return "field";
    if (state === "field" || state === "unquoted") return "unquoted";
    if (code === carriageReturn && state === "after-quote") return "after-return";
    this.#isMalformed = true;
    this.#firstMalformedLine ??= this.#line;
    return "unquoted";
  }

  /** Ends the record at the line end at `at`; returns the index after the line end. */
  #finish(chunk: Buffer, at: number): number {
    const isReturn = at > 0 && chunk[at - 1] === carriageReturn;
    this.#listener.end(this.#base + at - (isReturn ? 1 : 0), this.#isMalformed);
    this.#isMalformed = false;
    this.#state = "record";
    this.#line++;
    return at + 1;
  }

  #unclosed(): SluiceError {
    const misplaced =
      this.#firstMalformedLine === undefined
        ? ""
        : `; text first follows a closing quote on line ${this.#firstMalformedLine}`;
    return new SluiceError(
      "INPUT_UNREADABLE",
      `a quote opens here and never closes: the file is cut off, or a quote is missing${misplaced}`,
      { file: this.#file, line: this.#quoteLine, hint: "a quote within quotes is written twice" },
    );
  }
}

/** The same bytes in chunks that end with a carriage return only at the end of the file. */
export async function* withWholeLineEnds(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let isHeld = false;
  for await (const chunk of chunks) {
    const whole: Buffer = isHeld ? Buffer.concat([Buffer.of(carriageReturn), chunk]) : chunk;
    isHeld = whole.at(-1) === carriageReturn;
    const piece = isHeld ? whole.subarray(0, -1) : whole;
    if (piece.length > 0) yield piece;
  }
  if (isHeld) yield Buffer.of(carriageReturn);
}
