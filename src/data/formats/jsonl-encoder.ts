import { withoutSpecials } from "../../foundation/exact-json.ts";
import type { RowEncoder } from "./encoder.ts";

/** JSON lines: each row as it stands, with null for NaN and infinities. */
export function jsonlEncoder(): RowEncoder {
  return {
    add: async (lines) =>
      lines.length === 0 ? [] : [Buffer.from(withoutSpecials(`${lines.join("\n")}\n`))],
    end: async () => [],
  };
}
