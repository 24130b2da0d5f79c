import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import {
  endlessParquet,
  hugeRunParquet,
  negativeRunParquet,
} from "../data/formats/decoding-thread/hostile-parquet.ts";
import { withFooter } from "../data/formats/parquet/other-footer.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-hostile-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const golden = join(import.meta.dirname, "../golden");
let folders = 0;

/** Runs a job over one input file, and gives how it ended. */
async function runOver(name: string, content: Buffer) {
  const folder = mkdtempSync(join(root, `run-${folders++}-`));
  writeFileSync(join(folder, name), content);
  const job = ["run", "--input", name, "--output", "out", "--model", "fake", "--prompt", "Say it"];
  return await runSluice([...job, "--quiet"], folder);
}

describe("a file whose counts disagree", () => {
  it("is not an empty input: Parquet whose row groups say 0 rows", async () => {
    const whole = readFileSync(join(golden, "parquet/pyarrow-v1-zstd.parquet"));
    const content = withFooter(whole, ({ row_groups }) => {
      for (const group of row_groups) group.num_rows = 0n;
    });
    const { code, stderr } = await runOver("in.parquet", content);
    expect(stderr).toContain("INPUT_UNREADABLE");
    expect(stderr).toContain("row group 1 has 0 rows, its column id 64 values (");
    expect(stderr).toContain("/in.parquet)");
    expect(code).toBe(65);
  });

  it("is not an empty input: Arrow whose footer leaves out the record batches", async () => {
    const content = readFileSync(join(golden, "arrow/types.arrow"));
    const footer = content.subarray(content.length - 10 - content.readInt32LE(content.length - 10));
    // The count of the list of record batches, slot 10 of the footer's table.
    const table = footer.readInt32LE(0);
    const place = table + footer.readInt16LE(table - footer.readInt32LE(table) + 10);
    footer.writeInt32LE(0, place + footer.readInt32LE(place));
    const { code, stderr } = await runOver("in.arrow", content);
    expect(stderr).toContain("INPUT_UNREADABLE");
    expect(stderr).toContain("its footer is damaged: it leaves out the batch at ");
    expect(code).toBe(65);
  });
});

type HostilePage = [by: string, content: Buffer, message: string];

const pages: HostilePage[] = [
  ["by the size of a run", hugeRunParquet(), ", page 1: runs of a page are damaged ("],
  ["by a negative run", negativeRunParquet(), ", page 1: runs of a page are damaged ("],
];
// Half a minute of computing, as in `npm run test:long`; decoding-thread.test.ts has 3 s of it.
if (process.env.TEST_SLUICE_ENDLESS_PAGES !== undefined) {
  pages.push(["by its time", endlessParquet(), ": it takes more than 30 s to decode ("]);
}

describe("a page that never ends", () => {
  it.each(pages)("ends the run, with its place: %s", async (_name, content, message) => {
    const { code, stderr } = await runOver("in.parquet", content);
    expect(stderr).toContain("INPUT_UNREADABLE");
    expect(stderr).toContain(`row group 1, column text${message}`);
    expect(stderr).toContain("/in.parquet)");
    expect(code).toBe(65);
  });
});
