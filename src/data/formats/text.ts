import { limits } from "../../foundation/limits.ts";
import { readLines } from "./line-read.ts";
import { scanLines } from "./line-scan.ts";
import type { RowFormat } from "./row-format.ts";
import { selecting } from "./selecting.ts";

const chunkBytes = limits.readChunkBytes;

/** Plain text: each line that is not blank is a row `{text: line}`. */
export function textFormat(): RowFormat {
  return selecting({
    name: "text",
    extensions: [".txt", ".text"],
    scan: (reader, file, rule) => scanLines(reader, file, rule, chunkBytes),
    read: (reader, slice, firstIndex, { maxLineBytes }) =>
      readLines(reader, {
        slice,
        firstIndex,
        maxLineBytes,
        chunkBytes,
        toRow: (text, index, file, line) => {
          const value = { text };
          return { index, file, line, raw: JSON.stringify(value), value };
        },
      }),
  });
}
