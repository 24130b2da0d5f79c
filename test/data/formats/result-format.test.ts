import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  endingOf,
  openEncoder,
  resultFormatNames,
  resultFormatOf,
  withoutEnding,
} from "../../../src/data/formats/result-format.ts";
import { written } from "./writing.ts";

const lines = Array.from({ length: 1000 }, (_, at) => `{"row":${at},"text":"né ${at % 7}"}`);
const columns = [
  { name: "row", type: { kind: "integer", bits: 64, isSigned: true }, nullable: false },
  { name: "text", type: { kind: "string" }, nullable: false },
] as const;

describe("the form of result files", () => {
  it("is told by the ending, and has it", () => {
    for (const name of resultFormatNames) {
      for (const compression of [undefined, "gzip", "zstd", "brotli"] as const) {
        const format = { name, ...(compression && { compression }) };
        const path = `results.d/a.b${endingOf(format)}`;
        expect(resultFormatOf(path)).toEqual(format);
        expect(resultFormatOf(path.toUpperCase())).toEqual(format);
        expect(withoutEnding(path)).toBe("results.d/a.b");
      }
    }
    expect(resultFormatOf("rows.ndjson")).toEqual({ name: "jsonl" });
    for (const other of ["out", "out.csv/", "a.txt", "a.gz", "jsonl"]) {
      expect(resultFormatOf(other)).toBeUndefined();
    }
  });

  it("is compressed as a whole, the same bytes each time", async () => {
    const plain = await written(await openEncoder({ name: "jsonl" }, { columns: [] }), lines);
    expect(plain.toString()).toBe(`${lines.join("\n")}\n`);
    const decompress = {
      gzip: gunzipSync,
      zstd: zstdDecompressSync,
      brotli: brotliDecompressSync,
    } as const;
    for (const compression of ["gzip", "zstd", "brotli"] as const) {
      const file = async () =>
        written(await openEncoder({ name: "jsonl", compression }, { columns: [] }), lines);
      const bytes = await file();
      expect(bytes.length).toBeLessThan(plain.length / 2);
      expect(decompress[compression](bytes).equals(plain)).toBe(true);
      expect((await file()).equals(bytes)).toBe(true);
    }
  });

  it("of CSV and TSV has the columns", async () => {
    const csv = await written(await openEncoder({ name: "csv" }, { columns }), lines);
    expect(csv.toString().split("\n", 2)).toEqual(["row,text", "0,né 0"]);
    const tsv = await written(await openEncoder({ name: "tsv" }, { columns }), lines);
    expect(tsv.toString().split("\n", 2)).toEqual(["row\ttext", "0\tné 0"]);
  });
});
