import { closeSync, existsSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { snappyCompressor } from "hysnappy";
import { wordsUnder } from "./loads.ts";
import { dataDirectory } from "./setting.ts";

const groupRows = 20_000;

const schema = [
  { name: "schema", num_children: 4 },
  { name: "id", type: "INT64", repetition_type: "REQUIRED" },
  { name: "text", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "REQUIRED" },
  { name: "label", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
  { name: "score", type: "DOUBLE", repetition_type: "REQUIRED" },
] as const;

/**
 * A Parquet file of `{id, text, label, score}`, whose texts have `words` words, in row groups of
 * 20,000 rows, compressed by snappy, or not where `isPlain`. A file that is there is taken.
 *
 * @returns its path.
 */
export function parquetRows(count: number, words: number, isPlain = false): string {
  const path = join(dataDirectory, `rows-${count}-${words}${isPlain ? "-plain" : ""}.parquet`);
  if (existsSync(path)) return path;
  mkdirSync(dataDirectory, { recursive: true });
  const draft = `${path}.draft`;
  const file = openSync(draft, "w");
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({
    ...{ writer: bytes, schema: [...schema], codec: isPlain ? "UNCOMPRESSED" : "SNAPPY" },
    compressors: { SNAPPY: snappyCompressor() },
  });
  const next = wordsUnder(1);
  for (let start = 0; start < count; start += groupRows) {
    const ids = Array.from({ length: Math.min(groupRows, count - start) }, (_, at) => start + at);
    const columnData = [
      { name: "id", data: ids.map(BigInt) },
      { name: "text", data: ids.map(() => Array.from({ length: words }, next).join(" ")) },
      { name: "label", data: ids.map((id) => (id % 10 === 0 ? null : next())) },
      { name: "score", data: ids.map((id) => id / 7) },
    ];
    writer.write({ columnData, rowGroupSize: ids.length });
    writeSync(file, bytes.getBytes());
    bytes.index = 0;
  }
  writer.finish();
  writeSync(file, bytes.getBytes());
  closeSync(file);
  renameSync(draft, path);
  return path;
}
