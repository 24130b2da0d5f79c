import { closeSync, openSync, writeSync } from "node:fs";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { snappyCompressor } from "hysnappy";

// What one would write without Sluice: read row groups, make a prompt of each row, add a field, and
// write row groups, each with the library's own loop.
// node parquet-baseline.ts INPUT OUTPUT

const [input, output] = process.argv.slice(2) as [string, string];
/** As long as the mean answer of the fake engine. */
const answer = "amber anchor apple arrow autumn basil";

const schema = [
  { name: "schema", num_children: 5 },
  { name: "id", type: "INT64", repetition_type: "REQUIRED" },
  { name: "text", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "REQUIRED" },
  { name: "label", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
  { name: "score", type: "DOUBLE", repetition_type: "REQUIRED" },
  { name: "answer", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "REQUIRED" },
] as const;

const file = await asyncBufferFromFile(input);
const metadata = await parquetMetadataAsync(file);
const results = openSync(output, "w");
const bytes = new ByteWriter();
const writer = new ParquetWriter({
  ...{ writer: bytes, schema: [...schema], compressors: { SNAPPY: snappyCompressor() } },
});
function flush(): void {
  writeSync(results, bytes.getBytes());
  bytes.index = 0;
}
let start = 0;
let promptChars = 0;
for (const group of metadata.row_groups) {
  const end = start + Number(group.num_rows);
  const range = { rowStart: start, rowEnd: end };
  const rows = await parquetReadObjects({ file, metadata, compressors, ...range });
  for (const { text } of rows) promptChars += `Say more: ${text}`.length;
  const columnData = (["id", "text", "label", "score"] as const).map((name) => ({
    name,
    data: rows.map((row) => row[name]),
  }));
  const answers = { name: "answer", data: rows.map(() => answer) };
  writer.write({ columnData: [...columnData, answers] as never, rowGroupSize: rows.length });
  flush();
  start = end;
}
writer.finish();
flush();
closeSync(results);
if (promptChars === 0) throw new Error("there are no prompts");
