import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { describe, expect, it } from "vitest";
import { runSluice } from "../chaos/sluice-process.ts";
import { callHere } from "../cli/call.ts";
import { root } from "../meta/source-tree.ts";
import { scratchFolder } from "../run/whole-run.ts";
import { sluiceProgram } from "../sluice-program.ts";

/** What people give the packed program on ordinary days, and what its folders then hold. */
const fake = ["--model", "fake", "--prompt", "Say {{ text }}"];

const linesOf = (path: string) =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

const summaryOf = (stdout: string) =>
  JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as Record<string, unknown>;

const intervals = join(root, "test/golden/parquet/duckdb-interval.parquet");

describe("ids", () => {
  it("that a row lacks, or that are not text or numbers, are told with file and line", async () => {
    const folder = scratchFolder();
    const rows = ['{"id":"a","text":"x"}', '{"text":"x"}', '{"id":null,"text":"x"}'];
    writeFileSync(join(folder, "rows.jsonl"), `${rows.join("\n")}\n`);
    const job = ["--input", "rows.jsonl", ...fake, "--set", "input.id=id", "--output", "out"];
    const { code, stdout } = await runSluice(["run", ...job], folder);
    expect(code).toBe(1);
    expect(summaryOf(stdout)).toMatchObject({
      rows: { total: 3, answered: 1, failed: 2 },
      errors: { ID_INVALID: 2 },
    });
    expect(linesOf(join(folder, "out/_dead-letters/part-00000.jsonl"))).toMatchObject([
      {
        code: "ID_INVALID",
        line: 2,
        message: expect.stringMatching(/the row lacks it \(.*rows\.jsonl:2, field id\)/),
      },
      { code: "ID_INVALID", line: 3 },
    ]);
    expect((await runSluice(["verify", "out"], folder)).code).toBe(0);
  });
});

describe("standard input", () => {
  const runOver = (text: string, folder: string, ...more: string[]) =>
    new Promise<number | null>((resolve) => {
      const parameters = ["run", "--input", "-", ...fake, "--output", "out", "--quiet", ...more];
      const child = spawn(process.execPath, [sluiceProgram, ...parameters], {
        cwd: folder,
        stdio: ["pipe", "ignore", "ignore"],
      });
      child.once("close", resolve);
      child.stdin.end(text);
    });

  it("lies beside its run for as long as a retry can ask for it", async () => {
    const folder = scratchFolder();
    const spools = () =>
      readdirSync(join(folder, "out/_sluice")).filter((name) => name.startsWith("stdin-"));
    expect(await runOver('{"text":"a"}\n{"title":"b"}\n', folder)).toBe(1);
    const [first, ...others] = spools();
    expect(others).toEqual([]);
    // A row failed, so that a retry would read it again.
    expect((await runSluice(["clean", "out"], folder)).code).toBe(0);
    expect(spools()).toEqual([first]);
    // Refused: the output holds another run.
    expect(await runOver('{"text":"c"}\n', folder)).toBe(64);
    expect(spools()).toEqual([first]);
    expect(await runOver('{"text":"c"}\n', folder, "--overwrite")).toBe(0);
    expect(spools()).toHaveLength(1);
    expect(spools()).not.toEqual([first]);
    // All is answered.
    expect((await runSluice(["clean", "out"], folder)).code).toBe(0);
    expect(spools()).toEqual([]);
    expect((await runSluice(["verify", "out"], folder)).code).toBe(0);
    expect(linesOf(join(folder, "out/part-00000.jsonl"))).toMatchObject([{ text: "c" }]);
  });
});

describe("a cache of answers", () => {
  const answer = '{"text":"x","finishReason":"stop","tokens":1}';

  const damages = [
    ...["{", '{"answers":[]}', '{"answers":[{"text":1}]}', `{"answers":[${answer}]}`],
    `{"answers":[${answer}],"usage":{"promptTokens":"3"}}`,
  ];

  it("names a file that is damaged in whatever way, and makes it again", async () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "rows.jsonl"), '{"text":"a"}\n');
    const job = ["--input", "rows.jsonl", ...fake, "--generation.temperature", "0"];
    const run = (output: string) =>
      runSluice(["run", ...job, "--cache", "kept", "--output", output], folder);
    expect((await run("first")).code).toBe(0);
    const [name] = readdirSync(join(folder, "kept"), { recursive: true, encoding: "utf8" }).filter(
      (path) => path.endsWith(".json"),
    );
    const file = join(folder, "kept", name!);
    for (const [at, text] of damages.entries()) {
      writeFileSync(file, text);
      const { code, stderr } = await run(`damaged-${at}`);
      expect(code).toBe(0);
      expect(stderr, text).toContain("a file of the cache is damaged");
      expect(stderr).toContain(file);
      expect(readFileSync(file, "utf8")).not.toBe(text);
    }
    const last = await run("last");
    expect(last.stderr).not.toContain("damaged");
    expect(summaryOf(last.stdout)).toMatchObject({ reused_count: 1 });
    const made = readFileSync(
      join(folder, `damaged-${damages.length - 1}/part-00000.jsonl`),
      "utf8",
    );
    expect(readFileSync(join(folder, "last/part-00000.jsonl"), "utf8")).toBe(made);
  });
});

describe("a limit of 0", () => {
  const emptyOf: Readonly<Record<string, (path: string) => unknown>> = {
    jsonl: (path) => readFileSync(path, "utf8") === "",
    json: (path) => JSON.stringify(JSON.parse(readFileSync(path, "utf8"))) === "[]",
    csv: (path) => readFileSync(path, "utf8") === "id,took,waits,answer\n",
    tsv: (path) => readFileSync(path, "utf8") === "id\ttook\twaits\tanswer\n",
  };

  it.each([...Object.keys(emptyOf), "parquet"])("is an empty result: %s", async (ending) => {
    const folder = scratchFolder();
    writeFileSync(
      join(folder, "job.yaml"),
      "limit: 0\nmodel: { engine: fake }\nprompt: '{{ took }}'\n",
    );
    const output = `results.${ending}`;
    const run = ["run", "-c", "job.yaml", "--input", intervals, "--output", output, "--quiet"];
    const { code, stdout, stderr } = await runSluice(run, folder);
    expect(code, stderr).toBe(0);
    expect(summaryOf(stdout)).toMatchObject({ rows: { total: 0 }, request_count: 0, sealed: true });
    expect((await runSluice(["verify", output], folder)).code).toBe(0);
    expect((await runSluice(["results", output], folder)).stdout).toBe("");
    const path = join(folder, output);
    if (ending === "parquet") {
      const bytes = readFileSync(path);
      const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
      expect(await parquetReadObjects({ file })).toEqual([]);
      // A reader such as DuckDB takes no table without columns.
      expect(bytes.includes("answer")).toBe(true);
    } else expect(emptyOf[ending]!(path)).toBe(true);
  });

  it("is an empty directory of parts, as a flag", async () => {
    const folder = scratchFolder();
    const run = ["run", "--input", intervals, ...fake, "--limit", "0", "--output", "out"];
    expect((await runSluice(run, folder)).code).toBe(0);
    expect(readdirSync(join(folder, "out")).filter((name) => name.startsWith("part"))).toEqual([]);
    expect(existsSync(join(folder, "out/_SUCCESS"))).toBe(true);
    rmSync(join(folder, "out"), { recursive: true });
  });
});

describe("intervals of DuckDB", () => {
  it("are text in prompts, and in results of each format", async () => {
    const folder = scratchFolder();
    const job = ["--input", intervals, "--model", "fake", "--prompt", "{{ took }} {{ waits }}"];
    for (const output of ["out.jsonl", "out.csv", "out.parquet"]) {
      expect((await runSluice(["run", ...job, "--output", output], folder)).code).toBe(0);
      const { stdout } = await runSluice(["results", output], folder);
      expect(
        stdout
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line)),
      ).toMatchObject([
        { id: 1, took: "P1Y2M3DT4H5M6.789S", waits: ["P3D"] },
        { id: 2, took: null, waits: ["PT0S", null] },
      ]);
    }
    const bytes = readFileSync(join(folder, "out.parquet"));
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    expect(await parquetReadObjects({ file })).toMatchObject([
      { took: "P1Y2M3DT4H5M6.789S", waits: ["P3D"] },
      { took: null, waits: ["PT0S", null] },
    ]);
    expect(readFileSync(join(folder, "out.csv"), "utf8")).toContain("P1Y2M3DT4H5M6.789S");
  });
});

describe("HF_HUB_OFFLINE", () => {
  it.each(["1", "true", "True", "YES", "on"])("forbids the hub: %s", async (value) => {
    const folder = scratchFolder();
    const environment = { HF_HUB_OFFLINE: value, HF_ENDPOINT: "http://127.0.0.1:9" };
    const job = ["--input", "hf://datasets/owner/name/rows.jsonl", ...fake, "--output", "out"];
    const { code, stderr } = await callHere(["run", ...job], folder, environment);
    expect(code).toBe(75);
    expect(stderr).toContain("HF_HUB_OFFLINE is set");
  });
});
