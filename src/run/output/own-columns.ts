import { type Column, ColumnTally } from "../../data/columns.ts";
import { needsColumns, type ResultFormat } from "../../data/formats/result-format.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type ExactRow, parseExactly } from "../../foundation/exact-json.ts";
import { limits } from "../../foundation/limits.ts";
import { readLines } from "../directory/lines.ts";

/**
 * The columns of an attempt's rows, and of what is known before them. What rows alone tell may be
 * null in rows of others.
 *
 * @param maxLines rows that are looked at; default all.
 */
export async function columnsOfLines(
  storage: Storage,
  path: string,
  known: readonly Column[],
  maxLines: number = Number.POSITIVE_INFINITY,
): Promise<Column[]> {
  const tally = new ColumnTally(known);
  let lines = 0;
  for await (const line of readLines(storage, path)) {
    tally.add(parseExactly(line) as ExactRow);
    if (++lines >= maxLines) break;
  }
  const names = new Set(known.map(({ name }) => name));
  return assertTable(tally.columns()).map((it) =>
    names.has(it.name) ? it : { ...it, nullable: true },
  );
}

/** @throws SluiceError `UNSUPPORTED` where rows have too many fields for a table. */
export function assertTable(columns: Column[]): Column[] {
  if (columns.length <= limits.maxColumns) return columns;
  const detail = `rows have ${columns.length} different fields, a table ${limits.maxColumns} at most`;
  throw new SluiceError("UNSUPPORTED", detail, {
    field: "output.format",
    hint: "write JSON lines: by a new run with another --output, which ends in .jsonl or in no format",
  });
}

/** True where files of these columns look the same: a header of text has names alone. */
export function isSameTable(
  { name }: ResultFormat,
  a: readonly Column[],
  b: readonly Column[],
): boolean {
  const shape = (columns: readonly Column[]) =>
    name === "parquet"
      ? // A file looks the same, however large its whole numbers of 64 bits are.
        JSON.stringify(columns, (key, value: unknown) => (key === "isWide" ? undefined : value))
      : JSON.stringify(columns.map((column) => column.name));
  return !needsColumns({ name }) || shape(a) === shape(b);
}
