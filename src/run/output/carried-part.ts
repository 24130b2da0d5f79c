import type { CarriedGroup } from "../../data/formats/parquet/carried-groups.ts";
import { openInOrder } from "../../data/open-files.ts";
import type { Slice } from "../../data/row.ts";
import { schemeOf } from "../../data/storage/open.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { FileRecord } from "../directory/file-record.ts";
import { readLineBatches } from "../directory/lines.ts";
import { type Plan, readOptionsOf, type Task } from "../plan/plan.ts";
import type { RunContext } from "../run-context.ts";
import { EncodedFile, type Encoding } from "./encoded-file.ts";
import { writeWhole } from "./hashed-file.ts";

export interface WrittenPart {
  task: Task;
  part: FileRecord;
  /** Rows without a line, ascending; all others have one each, in order. */
  rowsWithoutLine: readonly number[];
}

/** Rows of a task, and what is taken over from their input. */
interface Stretch {
  first: number;
  rows: number;
  carried?: CarriedGroup;
}

/**
 * Writes a part as Parquet. Columns are taken over unchanged from the input's row groups if a whole
 * group was answered; added columns come from the part's lines.
 *
 * @returns undefined if nothing could be taken over.
 * @throws ColumnMisfit if lines do not fit the columns.
 */
export async function carryPart(
  context: RunContext,
  written: WrittenPart,
  path: string,
  encoding: Encoding,
): Promise<FileRecord | undefined> {
  const { storage, plan } = context;
  const { task, part, rowsWithoutLine } = written;
  // Another download would take longer than encoding the rows.
  const isNear = task.slices.some((slice) => isCarriable(slice));
  if (!isNear || plan.columns === undefined) return undefined;
  const batches = readLineBatches(storage, part.path);
  const lines = new LineTaker(batches);
  const file = await EncodedFile.open(storage, path, encoding);
  const fill = async () => {
    for await (const { first, rows, carried } of stretchesOf(context, written, encoding)) {
      if (carried) await file.carry(carried);
      let left = rows - countIn(rowsWithoutLine, first, rows);
      while (left > 0) {
        const some = await lines.take(left);
        await file.addAll(some);
        left -= some.length;
      }
    }
  };
  // Nobody asks for what comes after the last line: its file would stay open.
  return await writeWhole(file, fill).finally(() => batches.return(undefined));
}

/** Takes lines from batches, as many as needed. */
class LineTaker {
  readonly #batches: AsyncIterator<readonly string[]>;
  #batch: readonly string[] = [];

  constructor(batches: AsyncGenerator<readonly string[]>) {
    this.#batches = batches;
  }

  /** At least one line, `most` at most. */
  async take(most: number): Promise<readonly string[]> {
    while (this.#batch.length === 0) {
      const { done, value } = await this.#batches.next();
      if (done) throw new SluiceError("ROWS_UNBALANCED", "the part lacks lines");
      this.#batch = value;
    }
    const taken = this.#batch.slice(0, most);
    this.#batch = this.#batch.slice(most);
    return taken;
  }
}

function isCarriable({ file, format }: Slice): boolean {
  return format === "parquet" && schemeOf(file) === undefined;
}

async function* stretchesOf(
  { plan, openFile }: RunContext,
  { task, rowsWithoutLine }: WrittenPart,
  { columns }: Encoding,
): AsyncGenerator<Stretch> {
  const { sources = [] } = readOptionsOf(plan.job);
  const files = task.slices.map(({ file, etag, end }) => ({ path: file, etag, end }));
  let first = task.firstRow;
  let number = 0;
  for await (const reader of openInOrder(files, openFile, "INPUT_CHANGED")) {
    const slice = task.slices[number++]!;
    const start = first;
    first += slice.rows;
    if (!isCarriable(slice)) {
      yield { first: start, rows: slice.rows };
      continue;
    }
    const { carriedGroups } = await import("../../data/formats/parquet/carried-groups.ts");
    let at = start;
    for await (const stretch of carriedGroups(reader, slice, {
      kept: sources[slice.source ?? -1]?.columns,
      columns,
      isWritten: isWrittenBy(plan),
      areWhole: (offset, rows) => countIn(rowsWithoutLine, start + offset, rows) === 0,
    })) {
      yield { first: at, ...stretch };
      at += stretch.rows;
    }
  }
}

/** Tests for fields that a run adds to rows, even if the input has that name. */
function isWrittenBy({ job }: Plan): (name: string) => boolean {
  const names = new Set([job.output.field, `${job.output.field}Metadata`, "dataset"]);
  return (name) => names.has(name);
}

/** How many of ascending numbers are among `count` numbers from `first` on. */
function countIn(numbers: readonly number[], first: number, count: number): number {
  return placeOf(numbers, first + count) - placeOf(numbers, first);
}

/** How many of ascending numbers are below `limit`. */
function placeOf(numbers: readonly number[], limit: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
