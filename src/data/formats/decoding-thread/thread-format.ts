import { parseSpecials } from "../../../foundation/exact-json.ts";
import type { JsonObject } from "../../../foundation/json.ts";
import { lazily } from "../../../foundation/lazily.ts";
import type { Column } from "../../columns.ts";
import type { InputRow } from "../../row.ts";
import type { RandomReader } from "../../storage/storage.ts";
import type { SliceRange } from "../format.ts";
import type { RowFormat } from "../row-format.ts";
import { type Call, errorOfData, type PackedRows, type ThreadFormat } from "./call.ts";
import type { DecodingThread } from "./decoding-thread.ts";

const processThread = lazily(
  async () => new (await import("./decoding-thread.ts")).DecodingThread(),
);

/**
 * A format whose files are decoded in a thread that can be ended: see `DecodingThread`. This side
 * reads the bytes, and parses the texts of rows that come back.
 *
 * @param thread only tests set it.
 */
export function decodedInThread(
  format: RowFormat & { name: ThreadFormat },
  thread: () => Promise<DecodingThread> = processThread,
): RowFormat {
  async function* values(reader: RandomReader, file: string, call: Call, maxLineBytes = 0) {
    const start = { format: format.name, file, maxLineBytes, call };
    yield* (await thread()).values(reader, start);
  }
  async function only<Value>(reader: RandomReader, file: string, call: Call): Promise<Value> {
    for await (const value of values(reader, file, call)) return value as Value;
    throw new Error("unreachable: it gives one value or throws");
  }
  return {
    ...format,
    async *scan(reader, file, rule) {
      const ranges = values(reader, file, { method: "scan", rule });
      for await (const range of ranges) yield range as SliceRange;
    },
    async *read(reader, slice, firstIndex, { maxLineBytes, columns, parse = true }) {
      const { file } = slice;
      const call: Call = { method: "read", slice, firstIndex, columns };
      for await (const rows of values(reader, file, call, maxLineBytes)) {
        yield unpacked(rows as PackedRows, file, parse);
      }
    },
    columns: (reader, file) => only<readonly Column[]>(reader, file, { method: "columns" }),
    rowCount: (reader, file) => only<number>(reader, file, { method: "rowCount" }),
  };
}

function unpacked({ index, line, raws, faults }: PackedRows, file: string, parse: boolean) {
  const faultsAt = new Map(faults.map((fault) => [fault.at, fault]));
  return raws.map((raw, at): InputRow => {
    const row = { index: index + at, file, line: line + at, raw };
    const fault = faultsAt.get(at);
    if (fault) {
      const { rawBase64, error } = fault;
      return { ...row, ...(rawBase64 !== undefined && { rawBase64 }), error: errorOfData(error) };
    }
    return parse ? { ...row, value: parseSpecials(raw) as JsonObject } : row;
  });
}
