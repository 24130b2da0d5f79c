import { limits } from "../../foundation/limits.ts";
import { readLines } from "./line-read.ts";
import { scanLines } from "./line-scan.ts";
import { parseRow } from "./parse-row.ts";
import type { RowFormat } from "./row-format.ts";
import { selecting } from "./selecting.ts";

/** Bytes per read of a scan. Larger reads than those that make rows. */
const scanChunkBytes = 4 * limits.readChunkBytes;

/**
 * JSON Lines: an object on each line. Blank lines do not count. A byte order mark, CRLF and a
 * missing last line end are accepted.
 *
 * @param chunkBytes bytes per read; only tests set it.
 */
export function jsonlFormat(chunkBytes?: number): RowFormat {
  return selecting({
    name: "jsonl",
    extensions: [".jsonl", ".ndjson"],
    scan: (reader, file, rule) => scanLines(reader, file, rule, chunkBytes ?? scanChunkBytes),
    read: (reader, slice, firstIndex, { maxLineBytes, parse = true }) =>
      readLines(reader, {
        slice,
        firstIndex,
        maxLineBytes,
        chunkBytes: chunkBytes ?? limits.youngTextChars,
        toRow: parse ? parseRow : (raw, index, file, line) => ({ index, file, line, raw }),
      }),
  });
}
