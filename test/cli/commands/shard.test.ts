import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { scratchFolder } from "../../run/whole-run.ts";
import { call } from "../call.ts";

function folderWith(rows: number): string {
  const folder = scratchFolder();
  const lines = Array.from({ length: rows }, (_, id) => `{"id":${id},"text":"row ${id}"}\n`);
  writeFileSync(join(folder, "rows.jsonl"), lines.join(""));
  return folder;
}

const cut = ["shard", "rows.jsonl", "--shards", "20", "--output", "chunks", "--workers", "16"];

describe("sluice shard", () => {
  it("says in words what was written, and in JSON as the last line", async () => {
    const folder = folderWith(50);
    const { stdout, stderr, exitCode } = await call(folder, ...cut);
    expect(exitCode ?? 0).toBe(0);
    expect(stderr).toBe(`50 rows in 20 chunks of 2 to 3 rows: ${folder}/chunks\n`);
    expect(JSON.parse(stdout)).toEqual({
      isNew: true,
      output: join(folder, "chunks"),
      metadata: join(folder, "chunks/metadata.txt"),
      inputFiles: 1,
      leftOutResults: 0,
      rows: 50,
      bytes: 1280,
      chunks: 20,
      smallestRows: 2,
      largestRows: 3,
      emptyChunks: 0,
      workers: 16,
    });
    const again = await call(folder, ...cut);
    expect(again.stderr).toContain("already");
    expect(JSON.parse(again.stdout)).toMatchObject({ isNew: false, chunks: 20 });
  });

  it("gives jobs their input: all of it, and the share of each worker", async () => {
    const folder = folderWith(50);
    await call(folder, ...cut);
    const job = ["--model", "fake", "--prompt", "{{ text }}"];
    const run = (list: string, output: string) =>
      call(folder, "run", "--input-list", `chunks/${list}`, ...job, "--output", output);
    const all = await run("metadata.txt", "all.jsonl");
    expect(JSON.parse(all.stdout)).toMatchObject({ status: "SUCCESS", rows: { answered: 50 } });
    // 20 chunks over 16 workers: the first four have two, of which the first ten have three rows.
    const first = await run("workers/0.txt", "0");
    expect(JSON.parse(first.stdout).rows.answered).toBe(6);
    const ids = readFileSync(join(folder, "all.jsonl"), "utf8").match(/"id":\d+/g);
    expect(ids).toEqual(Array.from({ length: 50 }, (_, id) => `"id":${id}`));
  });

  it("says where chunks stay empty, and workers without a chunk", async () => {
    const folder = folderWith(3);
    const few = ["--shards", "5", "--workers", "8", "--output", "chunks"];
    const { stderr, stdout } = await call(folder, "shard", "rows.jsonl", ...few);
    expect(stderr).toContain("note: 2 chunks without a row: there are fewer rows than chunks");
    expect(stderr).toContain("note: 3 workers with no chunk: there are fewer chunks");
    expect(JSON.parse(stdout)).toMatchObject({ chunks: 5, emptyChunks: 2, smallestRows: 0 });
    const idle = ["--model", "fake", "--prompt", "{{ text }}", "--output", "idle"];
    const list = "chunks/workers/7.txt";
    const run = await call(folder, "run", "--input-list", list, ...idle);
    expect(JSON.parse(run.stdout)).toMatchObject({ status: "SUCCESS", rows: { total: 0 } });
  });

  it("writes Parquet, and cuts Parquet", async () => {
    const folder = folderWith(10);
    const table = ["--rows", "4", "--output", "tables", "--format", "parquet"];
    const written = await call(folder, "shard", "rows.jsonl", ...table);
    expect(JSON.parse(written.stdout)).toMatchObject({ chunks: 3, smallestRows: 2 });
    const lines = ["--shards", "2", "--output", "lines", "--columns", "text"];
    await call(folder, "shard", "tables/part_*.parquet", ...lines);
    const first = readFileSync(join(folder, "lines/part_0.jsonl"), "utf8");
    expect(first.split("\n").slice(0, 2)).toEqual(['{"text":"row 0"}', '{"text":"row 1"}']);
  });

  it("refuses what it does not understand, and writes nothing", async () => {
    const folder = folderWith(3);
    const refusals: [string[], string][] = [
      [[], "give exactly one of --shards and --rows"],
      [["--shards", "2", "--rows", "2"], "give exactly one of --shards and --rows"],
      [["--shards", "0"], "--shards 0 is not a whole number above 0"],
      [["--shards", "2", "--workers", "x"], "--workers x is not a whole number above 0"],
      [["--shards", "2", "--format", "parqet"], "did you mean parquet?"],
      [["--shards", "2", "--compression", "snappy"], "snappy is for Parquet"],
      [["--shards", "2", "--input-format", "jsnl"], "did you mean jsonl?"],
      [["--shards", "2", "--columns", "txt"], "did you mean text?"],
      [["--shrads", "2"], "did you mean --shards?"],
    ];
    for (const [flags, problem] of refusals) {
      const refused = await call(folder, "shard", "rows.jsonl", "--output", "chunks", ...flags);
      expect(refused.stderr, flags.join(" ")).toContain(problem);
      expect([64, 65]).toContain(refused.exitCode);
    }
    expect(existsSync(join(folder, "chunks"))).toBe(false);
  });
});
