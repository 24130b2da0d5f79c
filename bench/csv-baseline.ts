import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import Papa from "papaparse";

// What one would write without Sluice: read records by the library, add a field, write JSON lines.
// Two ways: row by row from the library's stream, as its documentation shows it for Node, and over
// the chunks that it parses at a time.
// node csv-baseline.ts chunks|rows INPUT OUTPUT

const [way, input, output] = process.argv.slice(2) as [string, string, string];
/** As long as the mean answer of the fake engine. */
const answer = "amber anchor apple arrow autumn basil";
const results = createWriteStream(output);

type Row = Record<string, string>;

function resultOf(row: Row): string {
  row.answer = answer;
  return `${JSON.stringify(row)}\n`;
}

if (way === "rows") {
  const stream = Papa.parse(Papa.NODE_STREAM_INPUT, { header: true });
  createReadStream(input).pipe(stream);
  for await (const row of stream as AsyncIterable<Row>) {
    if (!results.write(resultOf(row))) await once(results, "drain");
  }
} else {
  await new Promise<void>((resolve, reject) => {
    Papa.parse<Row>(createReadStream(input, { highWaterMark: 256 * 1024 }), {
      header: true,
      chunk({ data }, parser) {
        if (results.write(data.map(resultOf).join(""))) return;
        parser.pause();
        results.once("drain", () => parser.resume());
      },
      complete: () => resolve(),
      error: reject,
    });
  });
}
results.end();
