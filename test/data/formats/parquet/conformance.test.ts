import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parquetFormat } from "../../../../src/data/formats/parquet/parquet.ts";
import { parseSpecials } from "../../../../src/foundation/exact-json.ts";
import type { JsonObject } from "../../../../src/foundation/json.ts";
import { formatConformance } from "../../../conformance/format-conformance.ts";

const golden = join(import.meta.dirname, "../../../golden/parquet");

function sample(name: string) {
  const lines = readFileSync(join(golden, `${name}.jsonl`), "utf8")
    .trimEnd()
    .split("\n");
  return {
    name,
    content: readFileSync(join(golden, `${name}.parquet`)),
    rows: lines.map((line) => parseSpecials(line) as JsonObject),
  };
}

const samples = ["pyarrow-types", "pandas", "duckdb"].map(sample);
const options = { make: parquetFormat, sharesBytes: true, needsLength: true };
formatConformance(options, samples);
