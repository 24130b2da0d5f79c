import { arrowFormat } from "../../../../src/data/formats/arrow/arrow.ts";
import { parseSpecials } from "../../../../src/foundation/exact-json.ts";
import type { JsonObject } from "../../../../src/foundation/json.ts";
import { formatConformance } from "../../../conformance/format-conformance.ts";
import { file, rowsBeside } from "./reading.ts";

const sample = (name: string, rows: string) => ({
  name,
  content: file(name),
  rows: rowsBeside(rows).map((line) => parseSpecials(line) as JsonObject),
});
const samples = [
  sample("types.arrow", "parquet/pyarrow-types.jsonl"),
  sample("types.arrows", "parquet/pyarrow-types.jsonl"),
  sample("odd.arrow", "arrow/odd.jsonl"),
];
const options = { make: arrowFormat, sharesBytes: true, needsLength: true };
formatConformance(options, samples);
