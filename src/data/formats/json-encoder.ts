import { withoutSpecials } from "../../foundation/exact-json.ts";
import type { RowEncoder } from "./encoder.ts";

/**
 * One JSON array with a row a line. Each row keeps its text; NaN and infinities become null.
 *
 * @param isObject writes a file with a single row as that row.
 */
export function jsonEncoder(isObject = false): RowEncoder {
  return isObject ? objectEncoder() : arrayEncoder();
}

/** Holds all its rows, which come from one row of the input. */
function objectEncoder(): RowEncoder {
  const held: string[] = [];
  return {
    add: async (lines) => {
      held.push(...lines);
      return [];
    },
    end: async () => {
      if (held.length === 1) return [Buffer.from(withoutSpecials(`${held[0]}\n`))];
      const list = arrayEncoder();
      return [...(await list.add(held)), ...(await list.end())];
    },
  };
}

function arrayEncoder(): RowEncoder {
  let isEmpty = true;
  return {
    add: async (lines) => {
      if (lines.length === 0) return [];
      const before = isEmpty ? "[\n" : ",\n";
      isEmpty = false;
      return [Buffer.from(before + withoutSpecials(lines.join(",\n")))];
    },
    end: async () => [Buffer.from(isEmpty ? "[]\n" : "\n]\n")],
  };
}

/** JSON lines. Each row keeps its text; NaN and infinities become null. */
export function jsonlEncoder(): RowEncoder {
  return {
    add: async (lines) =>
      lines.length === 0 ? [] : [Buffer.from(withoutSpecials(`${lines.join("\n")}\n`))],
    end: async () => [],
  };
}
