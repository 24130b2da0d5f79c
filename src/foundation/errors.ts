import { type ErrorCode, type ErrorScope, errorTable } from "./error-table.ts";
import type { Usage } from "./inference.ts";
import { shownPath, shownText } from "./shown-path.ts";

/** Where a fault lies, as far as that is known. */
export interface ErrorPlace {
  /** A path, or a web address without its query, as messages show it. */
  file?: string;
  /** Line in that file, from 1. */
  line?: number;
  /** Field of the row, or key of the job file, dotted. */
  field?: string;
}

/** What a server answered instead of a result. It has only members that the server's error had. */
export interface ServerFault {
  /** HTTP status. */
  status: number;
  message?: string;
  type?: string | number | null;
  /** The field of the request that is at fault. */
  param?: string | number | null;
  code?: string | number | null;
}

interface SluiceErrorOptions extends ErrorPlace {
  cause?: unknown;
  hint?: string;
  /** The server's Retry-After in milliseconds. */
  retryAfterMs?: number;
  server?: ServerFault;
}

/**
 * Every fault that Sluice names. `code` never changes its meaning; `message` is one line that says
 * what happened and where; `hint` says what to do.
 *
 * @example
 * throw new SluiceError("JSON_INVALID", "unexpected end", { file: "in.jsonl", line: 3 });
 */
export class SluiceError extends Error {
  override readonly name = "SluiceError";
  readonly code: ErrorCode;
  readonly place: ErrorPlace;
  hint: string;
  readonly retryAfterMs: number | undefined;
  /** The server's own words, if a server answered with an error. */
  server?: ServerFault;
  /** Tokens that were paid for before the error happened. */
  paid?: Usage;

  constructor(code: ErrorCode, detail = "", options: SluiceErrorOptions = {}) {
    const { line, field, cause, hint, retryAfterMs, server } = options;
    const file = options.file === undefined ? undefined : shownPath(options.file);
    const where = [
      file === undefined ? "" : line === undefined ? file : `${file}:${line}`,
      field === undefined ? "" : `field ${field}`,
    ].filter(Boolean);
    const shown = shownText(detail);
    const text = shown ? `${errorTable[code].message}: ${shown}` : errorTable[code].message;
    super(where.length > 0 ? `${text} (${where.join(", ")})` : text, { cause });
    this.code = code;
    this.place = { file, line, field };
    this.hint = hint === undefined ? errorTable[code].hint : shownText(hint);
    this.retryAfterMs = retryAfterMs;
    this.server = server;
  }

  get scope(): ErrorScope {
    return errorTable[this.code].scope;
  }

  /** Its hint, if it says more than that of its code. */
  get ownHint(): string | undefined {
    return this.hint === errorTable[this.code].hint ? undefined : this.hint;
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable;
  }

  get exitCode(): number {
    return errorTable[this.code].exitCode;
  }

  /** The form in which an error is sent to another process or written down. */
  toJSON(): ErrorRecord {
    const { code, message, hint, place, server } = this;
    const { field } = place;
    return {
      ...{ code, message, hint },
      ...(field !== undefined && { field }),
      ...(server !== undefined && { server }),
    };
  }
}

/** An error as data. */
export interface ErrorRecord {
  code: ErrorCode;
  message: string;
  hint?: string;
  /** Field of the row or request, or key of the job file, dotted. */
  field?: string;
  /** The server's own words, if a server answered with an error. */
  server?: ServerFault;
}

/** Any thrown value as a `SluiceError`; anything that Sluice did not throw itself is `INTERNAL`. */
export function asSluiceError(thrown: unknown): SluiceError {
  if (thrown instanceof SluiceError) return thrown;
  const detail = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
  return new SluiceError("INTERNAL", detail, { cause: thrown });
}

/** An error whose message is complete: neither the words of its code nor its place are added. */
export function wordedError(
  code: ErrorCode,
  message: string,
  options: SluiceErrorOptions,
): SluiceError {
  const error = new SluiceError(code, "", options);
  error.message = message;
  return error;
}

/** An error about a row, with the row's place if the error has none yet. */
export function locatedError(
  error: SluiceError,
  { file, line }: { file: string; line: number },
): SluiceError {
  if (error.place.file !== undefined) return error;
  const { code, hint, server } = error;
  const { field } = error.place;
  const message = `${error.message} (${shownPath(file)}:${line})`;
  return wordedError(code, message, { file, line, field, hint, server, cause: error });
}

/** The error that ends a run because of a failed row, from that row's complete error. */
export function rowFailed({ message, hint, field }: Omit<ErrorRecord, "code">): SluiceError {
  const text = `${errorTable.ROW_FAILED.message}: ${message}`;
  return wordedError("ROW_FAILED", text, { hint, field });
}

/** The error from its record: the inverse of `toJSON`. */
export function errorFromRecord(record: ErrorRecord): SluiceError {
  const code = Object.hasOwn(errorTable, record.code) ? record.code : "INTERNAL";
  const { hint, field, server } = record;
  return wordedError(code, shownText(record.message), { hint, field, server });
}

/** The same fault with its texts changed, such as freed of secrets. */
export function withTexts(fault: ServerFault, change: (text: string) => string): ServerFault {
  const members = Object.entries(fault).map(([name, value]) => {
    return [name, typeof value === "string" ? change(value) : value];
  });
  return Object.fromEntries(members) as ServerFault;
}
