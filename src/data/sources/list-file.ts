import { type ErrorCode, errorTable } from "../../foundation/error-table.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { limits } from "../../foundation/limits.ts";
import { schemeOf } from "../storage/open.ts";
import type { RandomReader } from "../storage/storage.ts";
import { besideFile, normalized } from "./beside-file.ts";

/** One line of a list of files. */
export interface ListEntry {
  /** A file or a glob: an absolute path, or an address. */
  path: string;
  /** Where its results go, if the line says so. */
  output?: string;
  /** From 1. */
  line: number;
}

/** Bytes that a line may have. */
const maxEntryBytes = 16 * 1024;

/**
 * The entries of a list of files. Each line is a path, or a path, `;` and the place of its results.
 * Blank lines and lines that begin with `#` are skipped. Relative paths start from the folder of
 * the list.
 *
 * @param prefixes beginnings of paths and their replacements; the longest that matches counts.
 * @throws SluiceError `INPUT_UNREADABLE` with the line, also if a remote list names a local file
 *   without a prefix in `prefixes`.
 */
export async function* listEntries(
  list: string,
  reader: RandomReader,
  prefixes: Readonly<Record<string, string>> = {},
): AsyncGenerator<ListEntry> {
  const froms = Object.keys(prefixes).sort((a, b) => b.length - a.length);
  const mapped = (path: string) => {
    const from = froms.find((prefix) => path.startsWith(prefix));
    return from === undefined ? path : prefixes[from]! + path.slice(from.length);
  };
  for await (const { text, line } of linesOf(list, reader)) {
    const entry = text.trim();
    if (entry === "" || entry.startsWith("#")) continue;
    const [, path = entry, output] = /^(.*?)\s*;\s*(.*)$/.exec(entry) ?? [];
    if (path === "" || output === "") {
      throw new SluiceError("INPUT_UNREADABLE", "no path stands before or after the ;", {
        file: list,
        line,
        hint: "write PATH, or PATH;OUTPUT",
      });
    }
    const found = { path: besideFile(list, mapped(path)), line };
    assertReachable(found.path, list, line, prefixes);
    yield output === undefined ? found : { ...found, output: mapped(output) };
  }
}

/** A remote list may not name local files, unless the job maps them. */
function assertReachable(
  path: string,
  list: string,
  line: number,
  prefixes: Readonly<Record<string, string>>,
): void {
  if (schemeOf(list) === undefined || schemeOf(path) !== undefined) return;
  if (isMapped(path, list, prefixes)) return;
  throw new SluiceError("INPUT_UNREADABLE", `a far list names ${path}, a file of this machine`, {
    file: list,
    line,
    hint: "let input.prefixes map what the list says to a folder here, or copy the list here",
  });
}

/** True for a path below a replacement of `prefixes`, which the job itself names. */
export function isMapped(
  path: string,
  list: string,
  prefixes: Readonly<Record<string, string>> = {},
): boolean {
  const targets = Object.values(prefixes).map((target) => {
    const whole = normalized(besideFile(list, target));
    return target.endsWith("/") ? whole.replace(/\/*$/, "/") : whole;
  });
  return targets.some((target) => normalized(path).startsWith(target));
}

/**
 * An error about an entry of a list, with the place of the entry.
 *
 * @example
 * catch (error) { throw inList(error, list, entry.line); }
 */
export function inList(error: unknown, file: string, line: number): unknown {
  if (!(error instanceof SluiceError)) return error;
  const { code, message, hint } = error;
  const detail = withoutTitle(message, code);
  return new SluiceError(code, detail, { file, line, hint, cause: error });
}

function withoutTitle(message: string, code: ErrorCode): string {
  const title = errorTable[code].message;
  return message.startsWith(title)
    ? message.slice(title.length).replace(/^: | (?=\()/, "")
    : message;
}

async function* linesOf(
  file: string,
  reader: RandomReader,
): AsyncGenerator<{ text: string; line: number }> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decoded = (bytes: Uint8Array) => {
    try {
      return decoder.decode(bytes, { stream: bytes.length > 0 });
    } catch (cause) {
      throw new SluiceError("INPUT_UNREADABLE", "it is not UTF-8 text", { file, cause });
    }
  };
  let pending = "";
  let line = 0;
  for (let offset = 0; ; ) {
    const bytes = await reader.read(offset, limits.readChunkBytes);
    offset += bytes.length;
    const lines = (pending + decoded(bytes)).split(/\r?\n/);
    if (bytes.length > 0) pending = lines.pop()!;
    for (const text of lines) yield { text, line: ++line };
    if (pending.length > maxEntryBytes) {
      throw new SluiceError("INPUT_UNREADABLE", "a line is too long to be a path", {
        file,
        line: line + 1,
        hint: "is it a list of paths? Rows are read without input.list",
      });
    }
    if (bytes.length === 0) return;
  }
}
