import { isUtf8 } from "node:buffer";
import { basename } from "node:path";
import type { JsonObject } from "../../foundation/json.ts";
import { limits } from "../../foundation/limits.ts";
import type { InputRow, Slice } from "../row.ts";
import type { RandomReader } from "../storage/storage.ts";
import { chunksOf, markBytes, verifiedChunks } from "./chunks.ts";
import type { SliceRange } from "./format.ts";
import { faultyRow } from "./parse-row.ts";
import { RangeCutter } from "./range-cutter.ts";
import { RecordHolder } from "./record-holder.ts";
import type { RowFormat } from "./row-format.ts";
import { selecting } from "./selecting.ts";

const chunkBytes = limits.readChunkBytes;

/**
 * Whole text files: each file is a row `{text, name, path}`. A text longer than `maxLineBytes` is a
 * row with an error.
 */
export function textFileFormat(): RowFormat {
  return selecting({
    name: "text-file",
    extensions: [],
    scan: scanWhole,
    rowCount: async () => 1,
    async *read(reader, slice, index, { maxLineBytes }) {
      const holder = new RecordHolder(maxLineBytes);
      for await (const chunk of verifiedChunks(reader, slice, chunkBytes)) holder.hold(chunk);
      const { bytes, isWhole } = holder.take();
      const place = { index, file: slice.file, line: 1 };
      const text = bytes.subarray(markBytes(bytes));
      const isSound = isWhole && isUtf8(text) && !text.includes(0);
      yield [
        isSound
          ? rowOf({ text: text.toString(), ...namesOf(slice.file) }, slice, index)
          : faultyRow(bytes, place, isWhole, maxLineBytes),
      ];
    },
  });
}

/**
 * Files of any kind by reference: each file is a row `{name, path, size}`. The reader of the row
 * opens the file itself; here its bytes are read for the checksum only.
 */
export function filesFormat(): RowFormat {
  return selecting({
    name: "files",
    extensions: [".png", ".jpg", ".jpeg", ".webp", ".gif", ".wav", ".mp3", ".flac", ".ogg", ".m4a"],
    takesBytesAsTheyAre: true,
    scan: scanWhole,
    rowCount: async () => 1,
    async *read(reader, slice, index) {
      for await (const _ of verifiedChunks(reader, slice, chunkBytes));
      yield [rowOf({ ...namesOf(slice.file), size: slice.end }, slice, index)];
    },
  });
}

/** A single range: the whole file, even an empty one. */
async function* scanWhole(reader: RandomReader, file: string): AsyncGenerator<SliceRange> {
  const cutter = new RangeCutter({ firstCutRows: 1, everyRows: 1, maxLineBytes: 0 });
  cutter.count();
  let bytes = 0;
  for await (const chunk of chunksOf(reader, file, { start: 0, end: reader.bytes }, chunkBytes)) {
    cutter.add(chunk);
    bytes += chunk.length;
  }
  cutter.end(bytes);
  yield* cutter.take();
}

function namesOf(path: string): { name: string; path: string } {
  return { name: basename(path), path };
}

function rowOf(value: JsonObject, { file }: Slice, index: number): InputRow {
  return { index, file, line: 1, raw: JSON.stringify(value), value };
}
