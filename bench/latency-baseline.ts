import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

// Four loops in one process, each row a wait: what four workers of one slot could reach at best.
// node latency-baseline.ts INPUT OUTPUT ROW_MS LOOPS

const [input, output, rowMs, loops] = process.argv.slice(2) as [string, string, string, string];
const lines = readFileSync(input, "utf8").trimEnd().split("\n");
const results: string[] = [];
let next = 0;

async function loop(): Promise<void> {
  for (let at = next++; at < lines.length; at = next++) {
    const row = JSON.parse(lines[at]!) as object;
    await sleep(Number(rowMs));
    results[at] = JSON.stringify({ ...row, answer: "done" });
  }
}

await Promise.all(Array.from({ length: Number(loops) }, loop));
writeFileSync(output, `${results.join("\n")}\n`);
