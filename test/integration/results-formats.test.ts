import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { parquetReadObjects } from "hyparquet";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { scratchFolder } from "../run/whole-run.ts";

const good = [
  '{"id":9007199254740993, "text":"one","n":1.5}',
  '{"id":2,"text":"two, \\"quoted\\""}',
];
const cut = '{"id":3,"text":"thr';
const bare = '{"id": 4,  "title":"no text", "n":1.50}';

describe("sluice results", () => {
  it("gives tables as well as lines, and failed rows as they stand in the input", async () => {
    const folder = scratchFolder();
    const at = (name: string) => join(folder, name);
    const torn = Buffer.from([0x7b, 0xff, 0xfe, 0x7d]);
    const lines = [good[0]!, cut, good[1]!, bare].map((line) => Buffer.from(`${line}\n`));
    writeFileSync(at("rows.jsonl"), Buffer.concat([...lines, torn, Buffer.from("\n")]));
    const job = ["--input", "rows.jsonl", "--model", "fake", "--prompt", "Say {{ text }}"];
    expect((await runSluice(["run", ...job, "--output", "out", "--quiet"], folder)).code).toBe(1);
    const results = async (...more: string[]) =>
      await runSluice(["results", "out", ...more], folder);

    const asLines = (await results()).stdout;
    expect((await results("--format", "jsonl")).stdout).toBe(asLines);
    const rows = asLines
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const csv = (await results("--format", "csv")).stdout;
    expect(csv.split(/\r?\n/).slice(0, 3)).toEqual([
      "id,text,n,answer",
      `9007199254740993,one,1.5,${rows[0].answer}`,
      `2,"two, ""quoted""",,${rows[1].answer}`,
    ]);
    const parquet = await results("--output", "answers.parquet");
    expect([parquet.code, parquet.stdout]).toEqual([0, ""]);
    expect(parquet.stderr).toContain(`2 rows: ${at("answers.parquet")}`);
    const { buffer } = new Uint8Array(readFileSync(at("answers.parquet")));
    expect(await parquetReadObjects({ file: buffer })).toMatchObject([
      { id: 9007199254740993n, text: "one", n: 1.5, answer: rows[0].answer },
      { id: 2n, text: 'two, "quoted"', n: null },
    ]);
    const occupied = await results("--output", "answers.parquet");
    expect([occupied.code, occupied.stderr]).toEqual([64, expect.stringContaining("--overwrite")]);
    expect((await results("--output", "answers.parquet", "--overwrite")).code).toBe(0);
    const unknown = await results("--format", "parqet");
    expect([unknown.code, unknown.stderr]).toEqual([64, expect.stringContaining("parquet?")]);

    const failed = Buffer.concat([Buffer.from(`${cut}\n${bare}\n`), torn, Buffer.from("\n")]);
    await results("--failed", "--as-input", "--output", "failed.jsonl");
    expect(readFileSync(at("failed.jsonl"))).toEqual(failed);
    for (const [name, unpacked] of Object.entries({ gz: gunzipSync, zst: zstdDecompressSync })) {
      await results("--failed", "--as-input", "--output", `failed.jsonl.${name}`);
      expect(unpacked(readFileSync(at(`failed.jsonl.${name}`)))).toEqual(failed);
    }
    const alone = await results("--as-input");
    expect([alone.code, alone.stderr]).toEqual([64, expect.stringContaining("--failed")]);
    const letters = (await results("--failed", "--format", "csv")).stdout;
    expect(letters).toContain("VARIABLE_MISSING");
    // Mended, they run as an input of their own.
    writeFileSync(at("failed.jsonl"), `${cut}ee"}\n${bare.replace("title", "text")}\n`);
    const again = ["run", ...job, "--input", "failed.jsonl", "--output", "again", "--quiet"];
    const own = again.filter((_, place) => place !== 1 && place !== 2);
    expect(JSON.parse((await runSluice(own, folder)).stdout).rows).toMatchObject({ answered: 2 });
  });
});
