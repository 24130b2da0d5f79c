import type { RowEncoder } from "./encoder.ts";

/** JSON lines: each row as it stands. */
export function jsonlEncoder(): RowEncoder {
  return {
    add: async (lines) => (lines.length === 0 ? [] : [Buffer.from(`${lines.join("\n")}\n`)]),
    end: async () => [],
  };
}
