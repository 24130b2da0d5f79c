import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { createInterface } from "node:readline";

// What one would write without Sluice: read rows, parse them, add a field, write them. Two ways:
// by lines, as Node's documentation shows it, and over whole chunks, which takes two thirds of it.
// node noop-baseline.ts chunks|lines INPUT OUTPUT

const [way, input, output] = process.argv.slice(2) as [string, string, string];
/** As long as the mean answer of the fake engine. */
const answer = "amber anchor apple arrow autumn basil";
const results = createWriteStream(output);

function resultOf(line: string): string {
  const row = JSON.parse(line) as Record<string, unknown>;
  row.answer = answer;
  return `${JSON.stringify(row)}\n`;
}

if (way === "lines") {
  for await (const line of createInterface({ input: createReadStream(input) })) {
    if (!results.write(resultOf(line))) await once(results, "drain");
  }
} else {
  let rest = "";
  const chunks = createReadStream(input, { encoding: "utf8", highWaterMark: 256 * 1024 });
  for await (const chunk of chunks as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    let text = "";
    for (const line of lines) text += resultOf(line);
    if (!results.write(text)) await once(results, "drain");
  }
}
results.end();
