import { readFileSync } from "node:fs";
import { join } from "node:path";
import { arrowFormat } from "../../../../src/data/formats/arrow/arrow.ts";
import type { InputRow } from "../../../../src/data/row.ts";
import { keptText, parseExactly } from "../../../../src/foundation/exact-json.ts";
import { readerOf, scanAll } from "../reading.ts";

const golden = join(import.meta.dirname, "../../../golden");

/** A file of the golden ones that pyarrow wrote. */
export function file(name: string): Buffer {
  return readFileSync(join(golden, "arrow", name));
}

/** The rows that the script which made golden files wrote beside them, as exact text. */
export function rowsBeside(path: string): string[] {
  const lines = readFileSync(join(golden, path), "utf8").trimEnd().split("\n");
  return lines.map((line) => keptText(parseExactly(line)));
}

/** The rows of all slices. */
export async function readAll(content: Uint8Array, everyRows = 1000): Promise<InputRow[]> {
  const rows: InputRow[] = [];
  for (const slice of await scanAll(arrowFormat(), content, { everyRows })) {
    const options = { maxLineBytes: 1_000_000 };
    const read = arrowFormat().read(readerOf(content), slice, rows.length, options);
    for await (const batch of read) rows.push(...batch);
  }
  return rows;
}
