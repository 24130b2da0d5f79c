import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { cleanRun } from "../../../src/run/clean.ts";
import type { JobInput } from "../../../src/run/job/schema.ts";
import { readManifest } from "../../../src/run/seal/seals.ts";
import { resultChunks } from "../../../src/run/status/results.ts";
import { type MemoryRuns, memoryRuns, willing } from "../memory-runs.ts";
import { pathsOf } from "../run-fixture.ts";
import { refusing } from "../scripted-engine.ts";

/** Rows of which those behind the first task have a column more. */
const rows = [
  '{"id":9007199254740993,"text":"one, two"}',
  '{"id":2,"text":"say \\"hi\\""}',
  '{"id":3,"text":"three","note":{"deep":[1.0,null]}}',
  '{"id":4,"text":"four"}',
];
const shard = { rows: 2 };

/** Refuses some rows. */
const runsOf = (output: Partial<NonNullable<JobInput["output"]>>) =>
  memoryRuns(rows, { shard, output: { path: "/runs/out", ...(output as object) } });

async function linesShown(runs: MemoryRuns): Promise<string[]> {
  const { directory, outside } = runs.location();
  const options = { failed: false, follow: false, clock: runs.clock };
  const chunks: Uint8Array[] = [];
  for await (const chunk of resultChunks(runs.store(directory), runs.store(outside), options)) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString().split("\n").slice(0, -1);
}

const partsOf = (runs: MemoryRuns) => pathsOf(runs.store("/runs/out"), "part-");
const bytesAt = async (runs: MemoryRuns, path: string) =>
  Buffer.from(await runs.store("/runs").read(path));

const answered = rows.map((row, at) => `${row.slice(0, -1)},"answer":"answer ${at}"}`);

describe("parts of another format", () => {
  it("are CSV with the columns of all tasks; rows are shown as lines all the same", async () => {
    const runs = runsOf({ format: "csv" });
    await runs.run();
    expect(await partsOf(runs)).toEqual(["part-00000.csv", "part-00001.csv"]);
    expect(await runs.text("part-00000.csv")).toBe(
      [
        "id,text,answer,note",
        '9007199254740993,"one, two",answer 0,',
        '2,"say ""hi""",answer 1,',
        "",
      ].join("\n"),
    );
    expect(await runs.text("part-00001.csv")).toBe(
      [
        "id,text,answer,note",
        '3,three,answer 2,"{""deep"":[1.0,null]}"',
        "4,four,answer 3,",
        "",
      ].join("\n"),
    );
    expect(await linesShown(runs)).toEqual(answered);
    expect(await runs.damages()).toEqual([]);
  });

  it("are published as the attempts encoded them where all have the same columns", async () => {
    const runs = memoryRuns(rows.slice(0, 2), {
      shard: { rows: 1 },
      output: { path: "/runs/out", format: "tsv" },
    });
    await runs.run();
    const manifest = await readManifest(runs.store("/runs/out"));
    expect(manifest?.tasks.map(({ encoded }) => encoded?.split("/").at(-1))).toEqual([
      "part.tsv",
      "part.tsv",
    ]);
    expect(await runs.text("part-00001.tsv")).toContain("id\ttext\tanswer\n");
  });

  it("are JSON, compressed, and Parquet", async () => {
    const json = runsOf({ format: "json" });
    await json.run();
    expect(JSON.parse(await json.text("part-00001.json"))).toHaveLength(2);
    expect(await json.text("part-00000.json")).toContain("9007199254740993");
    const zipped = runsOf({ compression: "zstd" });
    await zipped.run();
    const part = Buffer.from(await zipped.store("/runs/out").read("part-00001.jsonl.zst"));
    expect(zstdDecompressSync(part).toString()).toBe(`${answered.slice(2).join("\n")}\n`);
    const parquet = runsOf({ format: "parquet" });
    await parquet.run();
    const table = await parquet.store("/runs/out").read("part-00000.parquet");
    expect(Buffer.from(table.slice(0, 4)).toString()).toBe("PAR1");
    for (const runs of [json, zipped, parquet]) {
      expect(await linesShown(runs)).toEqual(answered);
      expect(await runs.damages()).toEqual([]);
    }
  });

  it("stay as they are when the seal is made once more", async () => {
    const runs = runsOf({ format: "csv" });
    await runs.run();
    const store = runs.store("/runs/out");
    const first = await runs.text("part-00000.csv");
    for (const path of await pathsOf(store, "_sluice/seals/")) await store.remove(path);
    await store.remove("_SUCCESS");
    await store.remove("part-00001.csv");
    await runs.run(willing());
    expect(await runs.text("part-00000.csv")).toBe(first);
    expect(await runs.damages()).toEqual([]);
  });
});

describe("one file of another format", () => {
  it("is made of all lines", async () => {
    const runs = runsOf({ path: "/runs/results.csv.gz" });
    await runs.run();
    const text = gunzipSync(await bytesAt(runs, "results.csv.gz")).toString();
    expect(text.split("\n").map((line) => line.split(",")[0])).toEqual([
      "id",
      "9007199254740993",
      "2",
      "3",
      "4",
      "",
    ]);
    expect(text).toContain("id,text,answer,note\n");
    expect(await pathsOf(runs.store("/runs/results.csv.gz.sluice"), "part-")).toEqual([]);
    expect(await linesShown(runs)).toEqual(answered);
    expect(await runs.damages()).toEqual([]);
  });

  it("is a JSON array, which a damage is found in", async () => {
    const runs = runsOf({ path: "/runs/results.json" });
    await runs.run();
    const bytes = await bytesAt(runs, "results.json");
    expect(bytes.toString()).toBe(`[\n${answered.join(",\n")}\n]\n`);
    await runs.store("/runs").replace("results.json", Buffer.from(`${bytes} `));
    expect((await runs.damages()).map(({ file }) => file)).toEqual(["results.json"]);
  });
});

describe("a retry of results in another format", () => {
  for (const path of ["/runs/out", "/runs/results.csv"]) {
    it(`puts answers into ${path}, again after a cleaning`, async () => {
      const runs = runsOf(path === "/runs/out" ? { format: "csv" } : { path });
      await runs.run(refusing([0, 2, 3]));
      await cleanRun(runs.dependenciesOf(), runs.location(), false);
      await runs.retry(refusing([2]));
      expect(await linesShown(runs)).toEqual([answered[0], answered[1], answered[3]]);
      await cleanRun(runs.dependenciesOf(), runs.location(), false);
      expect(await runs.damages()).toEqual([]);
      await runs.retry();
      expect(await linesShown(runs)).toEqual(answered);
      expect(await runs.damages()).toEqual([]);
      const text =
        path === "/runs/out"
          ? `${await runs.text("part-00000.csv")}${await runs.text("part-00001.csv")}`
          : (await bytesAt(runs, "results.csv")).toString();
      const heads = text.split("\n").filter((line) => line.startsWith("id,"));
      // The column of the row that failed until now is in every file.
      expect(new Set(heads)).toEqual(new Set(["id,text,answer,note"]));
      expect(text).toContain('3,three,answer 2,"{""deep"":[1.0,null]}"');
    });
  }

  it("leaves parts of other tasks alone where it brings no column", async () => {
    const runs = runsOf({ format: "csv" });
    await runs.run(refusing([3]));
    const store = runs.store("/runs/out");
    const before = await readManifest(store);
    await runs.retry();
    const after = await readManifest(store);
    expect(after?.tasks[0]).toEqual(before?.tasks[0]);
    expect(after?.tasks[1]?.encoded).toMatch(/^_sluice\/generations\/2\/\w+\/encoded-1\.csv$/);
  });
});

describe("a run that is replaced or forked", () => {
  it("takes its parts and its file along", async () => {
    for (const output of [{ format: "csv" as const }, { path: "/runs/results.csv" }]) {
      const runs = runsOf(output);
      await runs.run();
      const spec = runs.job({ prompt: "Other {{ text }}" });
      await runs.run(willing(), spec, { overwrite: true });
      expect(await runs.damages()).toEqual([]);
      await runs.run(willing(), runs.job({ prompt: "Third" }), { fork: true });
      const fork = output.path ? "/runs/results-2.csv" : "/runs/out-2";
      const forked = runs.job({ output: { ...output, path: fork } });
      expect(await runs.damages(forked)).toEqual([]);
    }
  });
});
