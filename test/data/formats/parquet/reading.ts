import { ColumnTally } from "../../../../src/data/columns.ts";
import { parquetEncoder } from "../../../../src/data/formats/parquet/encoder.ts";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import type { InputRow, Slice } from "../../../../src/data/row.ts";
import { type ExactRow, parseExactly } from "../../../../src/foundation/exact-json.ts";
import { limits } from "../../../../src/foundation/limits.ts";
import { readerOf } from "../reading.ts";

const format = parquetFormat();

/** Where a file is cut; every 1000 rows where nothing is said. */
export interface Cut {
  everyRows?: number;
  firstCutRows?: number;
  atOwnBorders?: boolean;
  columns?: readonly string[];
}

/** The slices of a file `in.parquet`. */
export async function slicesOf(content: Uint8Array, cut: Cut = {}): Promise<Slice[]> {
  const { everyRows = 1000, firstCutRows = everyRows, atOwnBorders = false, columns } = cut;
  const rule = { everyRows, firstCutRows, atOwnBorders, columns, maxLineBytes: 1e6 };
  const ranges = await Array.fromAsync(format.scan(readerOf(content), "in.parquet", rule));
  return ranges.map((range) => ({ file: "in.parquet", format: "parquet", ...range }));
}

/** The rows of one slice. */
export async function readSlice(
  content: Uint8Array,
  slice: Slice,
  firstIndex = 0,
  columns?: readonly string[],
): Promise<InputRow[]> {
  const options = { maxLineBytes: limits.maxLineBytes, columns };
  const batches = format.read(readerOf(content), slice, firstIndex, options);
  return (await Array.fromAsync(batches)).flat();
}

/** The rows of all slices. */
export async function readAll(content: Uint8Array, cut: Cut = {}): Promise<InputRow[]> {
  const rows: InputRow[] = [];
  for (const slice of await slicesOf(content, cut)) {
    const own = await readSlice(content, slice, rows.length);
    if (own.length !== slice.rows) throw new Error("a slice has other rows than cut");
    rows.push(...own);
  }
  return rows;
}

/** A file of rows, with the columns that they have. */
export async function encodedFile(lines: readonly string[]): Promise<Buffer> {
  const tally = new ColumnTally();
  for (const line of lines) tally.add(parseExactly(line) as ExactRow);
  const encoder = parquetEncoder({ columns: tally.columns() });
  return Buffer.concat([...(await encoder.add(lines)), ...(await encoder.end())]);
}
