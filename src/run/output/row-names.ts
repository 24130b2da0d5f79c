import { type ExactRow, parseExactly } from "../../foundation/exact-json.ts";
import { suffixed } from "../job/paths.ts";
import { seenAs } from "./output-path.ts";
import type { ResultRow } from "./result-rows.ts";

/** Longest id in the name of a file: file systems allow 255 bytes for the whole name. */
const maxIdBytes = 120;

/** Names the files of rows: each name is unique, whatever the ids are. */
export class RowNames {
  readonly #taken = new Set<string>();

  /** @param pattern a path with `{index}` or `{id}`. */
  take(pattern: string, row: ResultRow): string {
    const index = String(row.index);
    const path = pattern.replaceAll("{index}", index).replaceAll("{id}", () => nameOf(row));
    // Names with an index are unique.
    if (pattern.includes("{index}")) return path;
    let free = path;
    while (this.#taken.has(seenAs(free))) free = suffixed(free, `-${index}`);
    this.#taken.add(seenAs(free));
    return free;
  }
}

/** The row's id as a part of a file name; without an id, its index. */
function nameOf({ index, slice, lines }: ResultRow): string {
  const { [slice.id ?? ""]: id } = parseExactly(lines[0]!) as ExactRow;
  if (id === null || id === undefined || typeof id === "object") return String(index);
  const safe = String(id)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: no file system takes them well
    .replace(/[/\\:*?"<>|\u0000-\u001f]/g, "_")
    .slice(0, maxIdBytes);
  const short = Buffer.from(safe)
    .subarray(0, maxIdBytes)
    .toString()
    .replace(/\uFFFD+$/, "");
  return /^\.*$/.test(short) ? `_${short}` : short;
}
