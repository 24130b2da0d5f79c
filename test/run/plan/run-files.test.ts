import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { jobSchema } from "../../../src/run/job/schema.ts";
import { withoutRuns } from "../../../src/run/plan/run-files.ts";
import { temporaryFolder } from "../../engines/models/context.ts";
import { localInputs } from "../../local-inputs.ts";

const maxLineBytes = 1000;

/** A folder with these files; their content is `{}` unless it is said. */
async function folderWith(files: readonly (string | [path: string, content: object])[]) {
  const folder = await temporaryFolder();
  for (const file of files) {
    const [path, content] = typeof file === "string" ? [file, {}] : file;
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), `${JSON.stringify(content)}\n`);
  }
  return folder;
}

async function kept(folder: string, pattern: string, output = "elsewhere/out") {
  const job = jobSchema.parse({
    ...{ input: pattern, model: { engine: "fake" }, prompt: "x" },
    output: { path: join(folder, output) },
  });
  const path = join(folder, pattern) + (pattern.endsWith("/") ? "/" : "");
  const sources = [{ path, maxLineBytes }];
  const { files } = await withoutRuns(sources, "/", job.output, localInputs);
  return files.map((file) => file.path.slice(folder.length + 1));
}

const plan = { mergedFile: null };
const listed = {
  ...plan,
  outputs: { list: { path: "_sluice/outputs-1.jsonl" }, base: "outside", isPerRow: false },
};

describe("files that runs made", () => {
  it("are left out below a glob or folder, in run directories and beside them", async () => {
    const folder = await folderWith([
      "data/a.jsonl",
      "data/deep/b.jsonl",
      ["data/out/_sluice/plan.json", plan],
      "data/out/part-00000.jsonl",
      "data/out/_dead-letters/part-00000.jsonl",
      [
        "data/all.jsonl.sluice/_sluice/plan.json",
        { mergedFile: "all.jsonl", errorFile: "e.jsonl" },
      ],
      "data/all.jsonl",
      "data/e.jsonl",
      ["data/{stem}.x.jsonl.sluice/_sluice/plan.json", listed],
      ["data/{stem}.x.jsonl.sluice/_sluice/outputs-1.jsonl", { path: "a.x.jsonl" }],
      "data/a.x.jsonl",
      "data/mine.x.jsonl",
      ["{dir}/{stem}.jsonl.sluice/_sluice/plan.json", listed],
      ["{dir}/{stem}.jsonl.sluice/_sluice/outputs-1.jsonl", { path: "data/deep/b.jsonl" }],
    ]);
    const own = ["data/a.jsonl", "data/mine.x.jsonl"];
    expect(await kept(folder, "data/*.jsonl")).toEqual(own);
    expect(await kept(folder, "data/**/*.jsonl")).toEqual([
      "data/a.jsonl",
      "data/deep/b.jsonl",
      own[1],
    ]);
    expect(await kept(folder, "data/deep/")).toEqual(["data/deep/b.jsonl"]);
    expect(await kept(folder, "*/**/*.jsonl")).toEqual(own);
  });

  it("do not count in the format of a folder", async () => {
    const folder = await folderWith([
      "data/a.jsonl",
      ["data/all.csv.sluice/_sluice/plan.json", { mergedFile: "all.csv" }],
      "data/all.csv",
      "data/own.parquet",
    ]);
    expect(await kept(folder, "data/", "data/own.parquet")).toEqual(["data/a.jsonl"]);
    await expect(kept(folder, "data/")).rejects.toMatchObject({
      code: "INPUT_FORMAT",
      message: expect.stringContaining("jsonl (a.jsonl), parquet (own.parquet)"),
    });
  });

  it("are taken where they, or their run, are named", async () => {
    const folder = await folderWith([
      ["out/_sluice/plan.json", plan],
      "out/part-00000.jsonl",
      ["all.jsonl.sluice/_sluice/plan.json", { mergedFile: "all.jsonl" }],
      "all.jsonl",
    ]);
    expect(await kept(folder, "out/")).toEqual(["out/part-00000.jsonl"]);
    expect(await kept(folder, "out/part-*.jsonl")).toEqual(["out/part-00000.jsonl"]);
    expect(await kept(folder, "all.jsonl")).toEqual(["all.jsonl"]);
    await expect(kept(folder, "*.jsonl")).rejects.toMatchObject({
      code: "INPUT_MISSING",
      message: expect.stringContaining("are results of runs"),
    });
  });

  it("are those of the job itself before anything else says so", async () => {
    const folder = await folderWith(["a.jsonl", "results.jsonl", "errors.jsonl"]);
    expect(await kept(folder, "*.jsonl", "results.jsonl")).toEqual(["a.jsonl", "errors.jsonl"]);
  });

  it("are left out in stores as well, by one listing, and the job's own without any", async () => {
    const contents: Record<string, object> = {
      "s3://b/data/a.jsonl": {},
      "s3://b/data/all.jsonl": {},
      "s3://b/data/all.jsonl.sluice/_sluice/tasks.jsonl": {},
      "s3://b/data/old.jsonl": {},
      "s3://b/data/old.jsonl.sluice/_sluice/plan.json": { mergedFile: "old.jsonl" },
      "s3://b/data/out/_sluice/plan.json": plan,
      "s3://b/data/out/part-00000.jsonl": {},
    };
    const fileAt = (path: string) => ({ path, bytes: 1, modifiedMs: 0 });
    const found = Object.keys(contents)
      .filter((path) => path.endsWith(".jsonl"))
      .map((path) => ({ ...fileAt(path), below: "s3://b/data", format: "jsonl", source: 0 }));
    let listings = 0;
    const inputs: Parameters<typeof withoutRuns>[3] = {
      expand: async () => found,
      async *list(place) {
        listings++;
        yield* Object.keys(contents)
          .filter((path) => path.startsWith(place))
          .map(fileAt);
      },
      async open(path) {
        if (!contents[path]) throw new Error(path);
        const bytes = Buffer.from(JSON.stringify(contents[path]));
        const read = async (start: number, end: number) => bytes.subarray(start, end);
        return { bytes: bytes.length, read, close: async () => {} };
      },
    };
    const output = { path: "s3://b/data/all.jsonl" };
    const { files, leftOut } = await withoutRuns([], "/", output, inputs);
    expect([files.map(({ path }) => path), leftOut]).toEqual([["s3://b/data/a.jsonl"], 4]);
    expect(listings).toBe(1);
  });
});
