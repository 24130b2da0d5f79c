import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

// Lists a folder and parses every file in it. node resume-baseline.ts FOLDER

const folder = process.argv[2]!;
let rows = 0;
for (const name of readdirSync(folder)) {
  const commit = JSON.parse(readFileSync(join(folder, name), "utf8")) as {
    rows: { total: number };
  };
  rows += commit.rows.total;
}
console.log(rows);
