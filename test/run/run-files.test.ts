import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { localInputs } from "../../src/data/sources/open.ts";
import { jobSchema } from "../../src/run/job/schema.ts";
import { withoutRuns } from "../../src/run/run-files.ts";
import { temporaryFolder } from "../engines/models/context.ts";

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
  const found = await localInputs.expand([{ path, maxLineBytes }], "/");
  const { files, leftOut } = await withoutRuns(found, job, localInputs.open);
  expect(files.length + leftOut).toBe(found.length);
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

  it("lie in stores too, where the job's own are known", async () => {
    const output = { path: "s3://b/data/all.jsonl" };
    const job = jobSchema.parse({
      input: "s3://b/**",
      model: { engine: "fake" },
      prompt: "x",
      output,
    });
    const fileAt = (path: string) => ({
      ...{ path, below: "s3://b", bytes: 1, modifiedMs: 0, format: "jsonl", source: 0 },
    });
    const paths = ["data/a.jsonl", "data/all.jsonl", "data/all.jsonl.sluice/_sluice/tasks.jsonl"];
    const { files, leftOut } = await withoutRuns(
      paths.map((path) => fileAt(`s3://b/${path}`)),
      job,
      localInputs.open,
    );
    expect([files.map(({ path }) => path), leftOut]).toEqual([["s3://b/data/a.jsonl"], 2]);
  });
});
