import type { RowFormat } from "../../../src/data/formats/row-format.ts";
import type { InputRow, Slice } from "../../../src/data/row.ts";
import { bytesReader } from "../../../src/data/storage/bytes-reader.ts";
import type { RandomReader } from "../../../src/data/storage/storage.ts";

/** A reader of bytes in memory. */
export function readerOf(content: string | Uint8Array): RandomReader {
  return bytesReader(Buffer.from(content as string));
}

export interface Cut {
  firstCutRows?: number;
  everyRows?: number;
  maxLineBytes?: number;
}

/** The slices of a file `in`. */
export async function scanAll(
  format: RowFormat,
  content: string | Uint8Array,
  { everyRows = 1000, firstCutRows = everyRows, maxLineBytes = 1_000_000 }: Cut = {},
): Promise<Slice[]> {
  const slices: Slice[] = [];
  const rule = { firstCutRows, everyRows, maxLineBytes };
  for await (const range of format.scan(readerOf(content), "in", rule)) {
    slices.push({ file: "in", format: format.name, ...range });
  }
  return slices;
}

/** Cuts a file, checks that the slices cover it, and reads them all. */
export async function rowsOf(
  format: RowFormat,
  content: string | Uint8Array,
  cut: Cut = {},
): Promise<InputRow[]> {
  const slices = await scanAll(format, content, cut);
  const rows: InputRow[] = [];
  let end = 0;
  for (const slice of slices) {
    if (slice.start !== end) throw new Error(`slices leave a gap at ${end}`);
    end = slice.end;
    const before = rows.length;
    const { maxLineBytes = 1_000_000 } = cut;
    for await (const batch of format.read(readerOf(content), slice, before, { maxLineBytes })) {
      rows.push(...batch);
    }
    if (rows.length - before !== slice.rows) throw new Error("a slice has other rows than cut");
  }
  if (slices.length > 0 && end !== readerOf(content).bytes) throw new Error("the end is missing");
  return rows;
}

/** What a test compares of a row. */
export function brief(row: InputRow): unknown[] {
  return [row.index, row.line, row.value ?? row.error?.code];
}
