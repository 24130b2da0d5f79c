import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { afterAll, describe, expect, it } from "vitest";
// The virtual clock does not wait for what is loaded late.
import "../../../src/data/formats/decoding-thread/decoding-thread.ts";
import "../../../src/data/formats/parquet/carried-groups.ts";
import "../../../src/data/formats/parquet/encoder.ts";
import { readFooter } from "../../../src/data/formats/parquet/footer.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import { readAll } from "../../data/formats/parquet/reading.ts";
import { readerOf } from "../../data/formats/reading.ts";
import { type MemoryRuns, memoryRuns } from "../memory-runs.ts";
import { watchedReaders } from "../run-fixture.ts";
import { responseOf, scriptedEngine } from "../scripted-engine.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-carried-part-"));
afterAll(() => rmSync(folder, { recursive: true }));

const groupRows = 40;
const path = join(folder, "in.parquet");
/** Longer than what is taken over at least. */
const text = (id: number) => `${id} ${"x".repeat(4096)}`;

/** Three row groups. */
function writeInput(): void {
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({
    writer: bytes,
    codec: "UNCOMPRESSED",
    schema: [
      { name: "schema", num_children: 3 },
      { name: "id", type: "INT64", repetition_type: "REQUIRED" },
      { name: "text", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
      { name: "dropped", type: "INT32", repetition_type: "REQUIRED" },
    ],
  });
  const ids = Array.from({ length: 3 * groupRows }, (_, id) => id);
  const columnData = [
    { name: "id", data: ids.map((id) => 2n ** 60n + BigInt(id)) },
    { name: "text", data: ids.map(text) },
    { name: "dropped", data: ids },
  ];
  writer.write({ columnData, rowGroupSize: groupRows });
  writer.finish();
  writeFileSync(path, bytes.getBytes());
}
writeInput();

const refusing = (...refused: number[]) =>
  scriptedEngine(4, ({ index }) =>
    refused.includes(index) ? new SluiceError("REQUEST_REFUSED") : responseOf(`answer ${index}`),
  );

const runsOf = (changes: object = {}) =>
  memoryRuns([], {
    input: { path, columns: ["id", "text"] },
    prompt: "Say {{ id }}",
    shard: { rows: 1000 },
    output: { path: "/runs/out", format: "parquet" },
    ...changes,
  });

async function partOf(runs: MemoryRuns) {
  const part = await runs.store("/runs/out").read("part-00000.parquet");
  const { groups } = await readFooter(readerOf(part), "part");
  return { raws: (await readAll(part)).map(({ raw }) => raw), groups: groups.map((it) => it.rows) };
}

const lineOf = (id: number, answer = `answer ${id}`) =>
  `{"id":${2n ** 60n + BigInt(id)},"text":"${text(id)}","answer":"${answer}"}`;
const ids = Array.from({ length: 3 * groupRows }, (_, id) => id);

describe("a part made of row groups of the input", () => {
  it("has every row in order, with the input's row groups", async () => {
    const runs = runsOf();
    const watched = watchedReaders(runs.store("/runs/out"));
    const place = (location: string) =>
      location === "/runs/out" ? watched.storage : runs.store(location);
    const dependencies = runs.dependenciesOf(place);
    await runs.run(refusing(), runs.job(), { dependencies });
    expect(watched.open).toEqual([]);
    const { raws, groups } = await partOf(runs);
    expect(raws).toEqual(ids.map((id) => lineOf(id)));
    expect(groups).toEqual([groupRows, groupRows, groupRows]);
    expect(await runs.damages()).toEqual([]);
  });

  it("lacks rows that failed, and gets them by a retry", async () => {
    const runs = runsOf();
    await runs.run(refusing(groupRows, groupRows + 7));
    const { raws, groups } = await partOf(runs);
    const failed = new Set([groupRows, groupRows + 7]);
    expect(raws).toEqual(ids.filter((id) => !failed.has(id)).map((id) => lineOf(id)));
    expect(groups).toEqual([groupRows, groupRows - 2, groupRows]);
    expect(await runs.damages()).toEqual([]);
    await runs.retry(refusing());
    expect((await partOf(runs)).raws).toEqual(ids.map((id) => lineOf(id)));
    expect(await runs.damages()).toEqual([]);
  });

  it("has the answers where a column of that name was in the input", async () => {
    const runs = runsOf({ output: { path: "/runs/out", format: "parquet", field: "text" } });
    await runs.run(refusing());
    const { raws } = await partOf(runs);
    expect(raws).toEqual(ids.map((id) => `{"id":${2n ** 60n + BigInt(id)},"text":"answer ${id}"}`));
  });
});
