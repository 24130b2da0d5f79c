import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runArguments } from "../../src/cli/run-target.ts";
import { carriedOut, preparedRun, scratchFolder } from "../run/whole-run.ts";
import { call } from "./call.ts";

describe("a run as arguments of a command", () => {
  const here = { workingDirectory: "/work" };
  const store = { endpoint: "http://minio:9000", conditional: "none" } as const;

  it("is short, quoted, and no option", () => {
    expect(runArguments("/work/out", undefined, here)).toBe("out");
    expect(runArguments("/work/my out", store, here)).toBe("'my out'");
    expect(runArguments("/work/-out", undefined, here)).toBe("./-out");
  });

  it("has the options that find its store", () => {
    expect(runArguments("s3://b/out", store, here)).toBe(
      "s3://b/out --store.endpoint http://minio:9000 --store.conditional none",
    );
    expect(runArguments("s3://b/out", undefined, here)).toBe("s3://b/out");
  });
});

describe("a run by a file of JSON", () => {
  it("is that of a job file, unless results lie there", async () => {
    const run = preparedRun(scratchFolder(), undefined, { maxFailedRows: 4 });
    await carriedOut(run);
    const input = { path: "rows.jsonl", id: "id" };
    const job = { input, model: { engine: "fake" }, prompt: "Say {{ text }}" };
    writeFileSync(join(run.folder, "job.json"), JSON.stringify(job));
    const found = await call(run.folder, "status", "job.json", "--json");
    expect(JSON.parse(found.stdout)).toMatchObject({ location: run.location.directory });
    writeFileSync(join(run.folder, "list.json"), "[]");
    const list = await call(run.folder, "status", "list.json");
    expect(list.stderr).toContain("error NOT_A_RUN");
    rmSync(join(run.folder, "job.json"));
    const merged = preparedRun(run.folder, undefined, { maxFailedRows: 4 }, "job.json");
    await carriedOut(merged);
    const results = await call(run.folder, "status", "job.json", "--json");
    expect(JSON.parse(results.stdout)).toMatchObject({ location: merged.location.directory });
  });
});
