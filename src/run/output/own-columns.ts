import { type Column, ColumnTally, mergeColumns } from "../../data/columns.ts";
import { needsColumns, type ResultFormat } from "../../data/formats/result-format.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { type ExactRow, parseExactly } from "../../foundation/exact-json.ts";
import { limits } from "../../foundation/limits.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { readLines } from "../directory/lines.ts";
import { readJson } from "../directory/records.ts";

/**
 * The columns of an attempt's rows, and of columns known before. Columns known only from rows may
 * be null in rows of others.
 *
 * @param maxLines rows to examine; default all.
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

/** @throws SluiceError `UNSUPPORTED` if rows have too many fields for a table. */
export function assertTable(columns: Column[]): Column[] {
  if (columns.length <= limits.maxColumns) return columns;
  const detail = `rows have ${columns.length} different fields, a table ${limits.maxColumns} at most`;
  throw new SluiceError("UNSUPPORTED", detail, {
    field: "output.format",
    hint: "write JSON lines: by a new run with another --output, which ends in .jsonl or in no format",
  });
}

/** True if files with these columns look the same: a text header has only names. */
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

export interface AllColumns {
  columns: readonly Column[];
  /** Columns of one task's rows. */
  of(file: FileRecord): readonly Column[];
}

/**
 * Reads the columns that commits name, equal ones once, and joins them in the order of the tasks.
 *
 * @param known columns of published files, if there are any.
 * @throws SluiceError `RUN_DAMAGED` if a file of columns is missing.
 */
export async function allColumns(
  storage: Storage,
  files: Iterable<FileRecord | undefined>,
  known?: readonly Column[],
): Promise<AllColumns> {
  const read = new Map<string, readonly Column[]>();
  let columns = known;
  for (const file of files) {
    if (!file || read.has(file.sha256)) continue;
    const own = await readJson<Column[]>(storage, file.path);
    if (!own) throw new SluiceError("RUN_DAMAGED", "the columns are missing", { file: file.path });
    read.set(file.sha256, own);
    columns = columns === undefined ? own : assertTable(mergeColumns(columns, own));
  }
  return { columns: columns ?? [], of: ({ sha256 }) => read.get(sha256)! };
}
