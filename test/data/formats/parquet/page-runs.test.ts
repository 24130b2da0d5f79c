import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkRuns } from "../../../../src/data/formats/parquet/page-runs.ts";
import { hugeRunParquet, negativeRunParquet } from "../decoding-thread/hostile-parquet.ts";
import { readAll } from "./reading.ts";

const check = (hex: string, bits: number, values: number) => () =>
  checkRuns(Buffer.from(hex, "hex"), bits, values);

describe("runs of a page", () => {
  it.each([
    ["a run of equal numbers", "c80101", 1, 100],
    ["packed numbers, the last of them for nothing", "05aabb", 1, 10],
    ["a packed run that was begun and filled up", "8101", 1, 10],
    ["fewer numbers than values, of which some are null", "1401", 1, 100],
    ["an empty run before others", "000114011401", 1, 20],
    ["numbers of no bits", "14", 0, 10],
  ])("may be %s", (_name, hex, bits, values) => {
    expect(check(hex, bits, values)).not.toThrow();
  });

  it.each([
    ["more equal numbers than values", "ca0101", 1, 100],
    ["as many as a count can be", "feffffff0f00", 2, 100],
    ["a count that is negative to the library", "ffffffff0f", 0, 100],
    ["a count without end", "ffffffffffff01", 1, 100],
    ["numbers of 33 bits", "0300", 33, 100],
  ])("may not be %s", (_name, hex, bits, values) => {
    expect(check(hex, bits, values)).toThrow("runs of a page are damaged");
  });

  it.each([
    ["of any count", hugeRunParquet()],
    ["of a negative one", negativeRunParquet()],
  ])("are looked at before the library makes values: %s", async (_name, content) => {
    await expect(readAll(content)).rejects.toMatchObject({
      code: "INPUT_UNREADABLE",
      message: expect.stringContaining("row group 1, column text, page 1: runs of a page"),
    });
  });

  it("are looked at in compressed pages as well", async () => {
    const content = readFileSync(
      join(import.meta.dirname, "../../../golden/parquet/pyarrow-v2-gzip.parquet"),
    );
    // The levels of the first page of ids, which are never compressed.
    const levels = content.indexOf(Buffer.from("2001040510", "hex"));
    Buffer.from("feffffff0f", "hex").copy(content, levels);
    await expect(readAll(content)).rejects.toMatchObject({
      message: expect.stringContaining("row group 1, column id, page 1: runs of a page"),
    });
  });
});
